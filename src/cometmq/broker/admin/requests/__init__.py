"""The requests of administrators: one function a code."""
