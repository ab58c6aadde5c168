"""The blocking clients, made by `make sync` from the asyncio ones; only `portal` is written by hand."""
