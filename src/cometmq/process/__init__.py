"""The process of a server and its system: the log, the limit of descriptors, the memory."""
