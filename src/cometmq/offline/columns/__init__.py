"""Converts many records at once to Arrow columns, and columns to items of a batch."""
