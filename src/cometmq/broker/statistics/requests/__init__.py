"""The request handlers of statistics."""
