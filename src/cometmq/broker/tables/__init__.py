"""Tables of the broker, in memory and some also in files, such as topics, groups, offsets, members and held pulls."""
