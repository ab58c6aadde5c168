"""Replication of the log and the tables between a master and its slaves (docs/design/0048-replication.md)."""
