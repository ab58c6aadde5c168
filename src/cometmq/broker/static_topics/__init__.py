"""Static topics, whose queues keep their number while they move between brokers."""
