"""Handlers of requests: one module a kind of request, one function a code."""
