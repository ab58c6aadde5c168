"""Replication without store or network: a state machine per end, and who has what (docs/design/0048-replication.md)."""
