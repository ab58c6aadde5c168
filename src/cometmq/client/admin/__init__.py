"""Administration of clusters: topics, groups, offsets, messages, and diagnosis."""
