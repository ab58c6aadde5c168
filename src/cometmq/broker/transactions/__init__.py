"""Transactions: half messages, their commit or rollback, and checks (docs/design/0011)."""
