"""Static topics, whose queues keep their numbers when they move between brokers; not supported."""
