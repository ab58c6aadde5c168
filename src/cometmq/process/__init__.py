"""The operating system side of a server process: log, file descriptors and memory."""
