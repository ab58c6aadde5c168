"""The messages that the broker itself writes: retries, due delays, transactions, and how their queues are read."""
