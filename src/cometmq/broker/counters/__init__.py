"""The counters of a broker: each number is counted once, and everything that shows one reads it here."""
