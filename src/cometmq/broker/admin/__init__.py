"""Requests about topics, groups, offsets, message lookup, cleaning, settings and accounts."""
