"""The source: which messages a read covers, and reading them.

Next: cometmq.spark.source.batch
"""
