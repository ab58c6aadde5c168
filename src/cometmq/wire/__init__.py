"""The conversation without I/O: bytes in, commands out, and who still waits for an answer."""
