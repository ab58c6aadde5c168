"""RocketMQ topics as Spark tables, streams and sinks: the format "rocketmq".

`session()` makes a local Spark session that knows it; `register(spark)` teaches it to yours.
docs/spark/quick-start.md shows both.
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

if not TYPE_CHECKING:  # A checker that sees it takes any name to be there.
    # Spark asks a new process for each step of a plan, which imports this package and needs none of them.
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
