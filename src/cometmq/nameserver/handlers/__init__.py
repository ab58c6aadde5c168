"""Request handlers of the nameserver, one module per group of requests."""
