"""Records to Arrow columns, many at once."""
