"""The gRPC proxy as a program of its own, in front of the brokers of a cluster (cluster mode)."""
