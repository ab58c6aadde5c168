"""The sink: rows to messages, acknowledged.

Next: cometmq.spark.sink.writer
"""
