"""Use of the event loop: threads for blocking work, time slices for long work, flushes, and busy polling."""
