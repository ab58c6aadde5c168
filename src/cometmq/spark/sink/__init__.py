"""Sink: converts rows to messages, sends them and waits for acknowledgements."""
