"""The requests of members: one function a code."""
