"""The requests of sends: one function a code."""
