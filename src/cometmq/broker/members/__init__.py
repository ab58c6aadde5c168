"""Clients of groups: heartbeats, queue locks, and conflicts between members."""
