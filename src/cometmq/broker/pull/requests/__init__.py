"""The requests of pulls: one function a code."""
