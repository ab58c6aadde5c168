"""Converts many records at once to Arrow columns, and columns of messages to items of a batch send."""
