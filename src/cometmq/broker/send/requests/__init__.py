"""The request handlers of sends."""
