"""CometMQ: Apache RocketMQ, compatible on the wire and on disk, as Python software."""
