"""The sink: rows to messages, acknowledged."""
