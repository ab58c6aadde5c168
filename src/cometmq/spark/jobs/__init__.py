"""Jobs on many messages: each module is a job, a function `run(spark, options)`.

`catalogue` lists them, `cometmq pipeline` is their command line, docs/pipeline.md describes them.
"""
