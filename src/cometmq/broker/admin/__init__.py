"""Requests of administrators: topics, groups, offsets, message lookup, settings and accounts."""
