"""The counters of a broker: each event is counted once; statistics, metrics and the dashboard read it here."""
