"""The blocking clients, made by `make sync` from the asyncio ones; only `portal` and `handoff` are written by hand."""
