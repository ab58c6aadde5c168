"""The gRPC proxy (apache.rocketmq.v2) in the process of a broker: its messages, its services and its transport."""
