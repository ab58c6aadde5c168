"""What is done with messages in bulk: each module a job, a function `run(spark, options)`.

`catalogue` names them all; `cometmq pipeline` is their command line; docs/pipeline.md their book.

Next: cometmq.spark.jobs.job
"""
