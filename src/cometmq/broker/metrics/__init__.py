"""The broker's metrics for Prometheus and OpenTelemetry, and its health (docs/design/0054)."""
