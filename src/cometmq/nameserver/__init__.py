"""The nameserver, at which brokers register their topics and from which clients get routes."""
