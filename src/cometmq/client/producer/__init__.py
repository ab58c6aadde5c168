"""Producers: from a message to its acknowledgement."""
