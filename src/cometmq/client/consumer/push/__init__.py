"""The push consumer, which calls a listener with each message."""
