"""Consumers: membership of a group, its queues and offsets, and subscriptions."""
