"""The requests of replication: one function a code."""
