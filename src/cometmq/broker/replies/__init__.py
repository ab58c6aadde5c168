"""Requests between clients, and their replies, that pass through the broker."""
