"""Store directories as Spark tables: the format "rocketmq-store".

The files are read by `cometmq.offline`, which does not depend on Spark
(docs/design/0052). This package adds Spark's side: schemas, options, readers and a writer.
"""
