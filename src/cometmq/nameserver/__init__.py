"""The nameserver: brokers tell it their topics, clients ask it for routes."""
