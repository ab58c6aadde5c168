"""Consumers: membership of a group, its queues and offsets, and what is wanted of a topic."""
