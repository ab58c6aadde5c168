"""The counters of a broker, which statistics, metrics and the dashboard read."""
