"""Spark data source, stream and sink for RocketMQ topics: the format "rocketmq".

`session()` creates a local Spark session, or takes the running one, and registers this format and "rocketmq-store";
`register(spark)` does so in any session. `delta_sink` and `read_delta` write and read Delta tables; `commit_offsets`
and `OffsetCommits` commit a query's offsets to a consumer group.
"""

from typing import TYPE_CHECKING

from cometmq.model.later import later
from cometmq.spark.register import register
from cometmq.spark.session import session

if TYPE_CHECKING:
    from cometmq.spark.delta import delta_sink, read_delta
    from cometmq.spark.format import RocketMQSource
    from cometmq.spark.source.commits import OffsetCommits, commit_offsets

__all__ = [
    "OffsetCommits",
    "RocketMQSource",
    "commit_offsets",
    "delta_sink",
    "read_delta",
    "register",
    "session",
]

if not TYPE_CHECKING:  # With a visible `__getattr__` a type checker would accept any name.
    # Spark starts a new process for each step of a plan. It imports this package, but needs none of these modules.
    __getattr__ = later(
        __name__,
        {
            "OffsetCommits": "cometmq.spark.source.commits",
            "RocketMQSource": "cometmq.spark.format",
            "commit_offsets": "cometmq.spark.source.commits",
            "delta_sink": "cometmq.spark.delta",
            "read_delta": "cometmq.spark.delta",
        },
    )
