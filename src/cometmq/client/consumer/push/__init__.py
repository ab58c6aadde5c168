"""The push consumer, which calls a listener."""
