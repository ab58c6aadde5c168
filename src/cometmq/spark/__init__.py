"""Spark data source, stream and sink for RocketMQ topics: the format "rocketmq".

`session()` creates a local Spark session, or takes the running one, and registers this format and "rocketmq-store";
`register(spark)` does so in any session. `delta_sink` and `read_delta` write and read Delta tables; `commit_offsets`
and `OffsetCommits` commit a query's offsets to a consumer group.
"""

from cometmq.model.later import later
from cometmq.spark.register import register as register
from cometmq.spark.session import session as session

# Spark starts a new process for each step of a plan. It imports this package, but needs none of the other modules.
__getattr__, __dir__, __all__ = later(__name__)
