"""The part of the loop that the broker shares out: threads for blocking work, time slices for long work."""
