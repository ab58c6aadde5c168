"""How the broker's machines are run: what their steps wait for, and who waits (docs/design/0040)."""
