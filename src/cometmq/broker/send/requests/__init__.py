"""Request handlers of sends: single messages, batches, and large batches in pieces."""
