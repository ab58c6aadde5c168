"""Administration: topics, groups, offsets, messages, and why something does not move."""
