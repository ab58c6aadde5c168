"""What a broker does for clients, as typed values: no frame, no connection (docs/design/0041)."""
