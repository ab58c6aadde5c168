"""Transactions: half messages, their commit or rollback, and checks back (docs/design/0011)."""
