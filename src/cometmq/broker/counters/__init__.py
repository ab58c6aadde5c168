"""The counters of a broker: each event is counted once, and everything that displays a number reads it here."""
