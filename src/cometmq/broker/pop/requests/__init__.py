"""The requests of pops: one function a code."""
