"""Tables of the broker, in memory and in its files: topics, groups, offsets, members, held pulls."""
