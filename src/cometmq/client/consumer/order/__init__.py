"""Orderly consumption: queue locks, and one listener call at a time for each queue or each key in it (docs/design/0012)."""
