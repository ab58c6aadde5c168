"""Pop consumption: messages are hidden for a time and delivered again unless acknowledged (docs/design/0014)."""
