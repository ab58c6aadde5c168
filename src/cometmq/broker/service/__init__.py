"""Services of a broker as typed values: no frame, no connection (docs/design/0041)."""
