"""The broker's metrics as Prometheus reads them, and whether it is well (docs/design/0054)."""
