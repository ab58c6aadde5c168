"""The broker's loop and how it is shared: steps of machines, threads for what waits, turns for what takes long (docs/design/0040)."""
