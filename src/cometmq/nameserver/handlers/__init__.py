"""Handlers of the nameserver, a module for each family of requests."""
