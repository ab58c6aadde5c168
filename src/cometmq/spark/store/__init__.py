"""Store directories as Spark tables: the format "rocketmq-store", and the kernels of its jobs.

Everything but the three faces that Spark asks for (`format`, `batch`, `stream`) is plain functions
over files and buffers: a split goes in, Arrow batches come out (docs/design/0023).

Next: cometmq.spark.store.folder
"""
