"""The runner of the broker's machines: what their steps wait for, and who waits (docs/design/0040)."""
