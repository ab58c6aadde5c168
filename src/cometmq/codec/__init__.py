"""Encoding and decoding of all disk and wire formats, each defined once and without I/O."""
