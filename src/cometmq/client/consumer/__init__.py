"""Consumers: group membership, queue assignment, offsets and subscriptions."""
