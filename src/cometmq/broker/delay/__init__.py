"""Delay levels: messages wait in the queue of their level until they are due (docs/design/0010)."""
