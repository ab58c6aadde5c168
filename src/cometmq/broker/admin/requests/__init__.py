"""Request handlers of administration: topics, groups, offsets, settings, users, files and lookups."""
