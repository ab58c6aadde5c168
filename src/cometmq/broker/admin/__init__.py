"""Requests of administrators: topics, groups, offsets, look-ups, settings and accounts."""
