"""Network connections: servers, outgoing channels, TLS, event loops, and the dispatcher of requests."""
