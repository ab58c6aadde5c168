"""The shared connections of clients: routes, nameservers, channels to brokers, and heartbeats."""
