"""Clients of a group: their heartbeats, what they hold locked, and who is refused."""
