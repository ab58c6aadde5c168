"""Copies of the log and of the tables: a master with its slaves, a slave with its master (docs/design/0048-replication.md)."""
