"""The remoting protocol without I/O: bytes in, commands out, and the requests that wait for an answer."""
