"""The requests of clients as typed methods; no other part of a client encodes commands.

Start with `asking`; for the design see docs/design/0053-client-request-layer.md.
"""
