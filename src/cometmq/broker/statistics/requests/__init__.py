"""The requests of statistics: one function a code."""
