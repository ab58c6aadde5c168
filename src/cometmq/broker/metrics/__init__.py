"""The broker's metrics for Prometheus, and its health (docs/design/0054)."""
