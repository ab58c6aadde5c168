"""Copies of the log: a master with its slaves, a slave with its master (docs/design/0048-replication.md)."""
