"""The broker's own messages: retries, due delays, transactions, and the reading of their queues."""
