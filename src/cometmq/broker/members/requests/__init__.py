"""Request handlers for members of groups: heartbeats, lists of clients, queue locks, conflicts."""
