"""Sink of the Spark format "rocketmq": converts rows to messages, sends them and waits for acknowledgements."""
