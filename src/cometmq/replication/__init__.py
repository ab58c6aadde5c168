"""Replication protocol without store or network: a state machine per end, and a count of copies.

See docs/design/0048-replication.md.
"""
