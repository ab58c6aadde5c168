"""Requests and replies between clients that pass through the broker."""
