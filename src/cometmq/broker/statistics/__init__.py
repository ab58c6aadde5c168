"""Statistics for consoles: rates, totals and lag."""
