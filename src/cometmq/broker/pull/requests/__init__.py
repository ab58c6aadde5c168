"""The request handlers of pulls."""
