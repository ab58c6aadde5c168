"""A broker's life as a slave: what it has of its master beside the log, and what it refuses (docs/design/0049-a-slave.md)."""
