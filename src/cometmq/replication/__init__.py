"""Replication protocol without store or network: a state machine per end, a count of copies, and rate limits.

See docs/design/0048-replication.md.
"""
