"""The push consumer, which calls a listener with the messages of its queues."""
