"""Messages with an arbitrary delivery time: they wait in the timer wheel (docs/design/0010)."""
