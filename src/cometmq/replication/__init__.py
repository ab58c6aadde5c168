"""Replication without store or net: a machine for each end, and who has what (docs/design/0048-replication.md)."""
