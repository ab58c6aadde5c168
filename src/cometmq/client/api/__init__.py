"""Requests that a client sends, as typed methods: the one place where a client makes commands.

Begin reading at `asking`; the design is docs/design/0053-client-request-layer.md.
"""
