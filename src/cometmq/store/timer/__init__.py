"""The timer's files: a wheel of slots, a log of units, and how far both are (docs/design/0010)."""
