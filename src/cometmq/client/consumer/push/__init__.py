"""The consumer that calls a listener."""
