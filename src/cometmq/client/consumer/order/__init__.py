"""Orderly consumption: queue locks, and one listener call at a time for each queue or key (docs/design/0012)."""
