"""Consumption in order: queue locks, and one line of calls for each queue (docs/design/0012)."""
