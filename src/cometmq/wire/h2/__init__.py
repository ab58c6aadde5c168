"""The server's end of HTTP/2 connections without I/O: bytes in, events and bytes out (docs/design/0071-grpc-transport.md)."""
