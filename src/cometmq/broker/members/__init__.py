"""Clients of groups: heartbeats, lists of connected clients, queue locks, and conflicts between members."""
