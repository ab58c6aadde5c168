"""Pop: messages are handed out for a while and come again unless acknowledged (docs/design/0014)."""
