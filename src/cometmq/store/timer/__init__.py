"""The timer's files: a wheel of slots, a log of units, and a checkpoint (docs/design/0010)."""
