"""Encoding and decoding of disk and wire formats, without I/O."""
