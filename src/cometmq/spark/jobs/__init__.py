"""Jobs on messages in bulk: each module is a job, a function `run(spark, options)`.

`catalogue` names them all; `cometmq pipeline` is their command line; docs/pipeline.md their book.
"""
