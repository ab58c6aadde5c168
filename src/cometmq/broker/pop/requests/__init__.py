"""The request handlers of pop."""
