"""RocketMQ topics as Spark tables, streams and sinks: the format "rocketmq".

`session()` makes a local Spark session that knows it; `register(spark)` teaches it to yours.
docs/spark/quick-start.md shows both.
"""

from cometmq.spark.format import RocketMQSource
from cometmq.spark.register import register
from cometmq.spark.session import session
from cometmq.spark.source.commits import OffsetCommits, commit_offsets

__all__ = ["OffsetCommits", "RocketMQSource", "commit_offsets", "register", "session"]
