"""The requests of replies: one function a code."""
