"""The broker's event loop: background jobs, threads for blocking work, time slices for long work (docs/design/0040)."""
