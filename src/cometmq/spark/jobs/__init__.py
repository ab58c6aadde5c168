"""Jobs on many messages, as Spark programs, and the modules that they share.

A job is a function of a Spark session and options, which its module registers as `JOB` or `JOBS`. `catalogue` lists
them, `cometmq pipeline` is their command line, docs/pipeline.md describes them.
"""
