"""Converts many records at once to Arrow columns."""
