"""Bytes to values and back: every layout of disk and of wire, once. Pure; no I/O."""
