"""Administration of clusters: topics, groups, users, offsets, messages, and diagnosis."""
