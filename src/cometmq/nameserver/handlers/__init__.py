"""What the nameserver answers, a module for each family of requests."""
