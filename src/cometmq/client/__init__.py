"""The client for RocketMQ clusters: producers, consumers and administration, for CometMQ and Java brokers.

Its public names are those of `cometmq`, `cometmq.admin` and `cometmq.connect`.
"""
