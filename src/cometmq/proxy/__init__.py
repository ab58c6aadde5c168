"""The proxy: RocketMQ's gRPC protocol (`apache.rocketmq.v2`) in front of a broker; needs the extra `grpc`."""
