"""Shared code for messages that the broker itself stores, such as retries and due delayed messages: writes and reads."""
