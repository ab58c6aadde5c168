"""The requests of clients as typed methods; no other part of a client encodes commands (docs/design/0053)."""
