"""Producers, from encoding a message to its acknowledgement."""
