"""Connections that the clients of a process share: routes, nameservers, channels to brokers, heartbeats."""
