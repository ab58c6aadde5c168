"""Store directories as Spark tables: the format "rocketmq-store".

What reads the files is `cometmq.offline`: plain functions, a split goes in and Arrow batches come out
(docs/design/0052). Here stands what Spark asks for: schemas, options, readers, a writer.
"""
