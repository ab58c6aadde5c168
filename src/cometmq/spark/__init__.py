"""RocketMQ topics as Spark tables, streams and sinks: the format "rocketmq".

`session()` makes a local Spark session that knows it; `register(spark)` teaches it to yours.
docs/spark/quick-start.md shows both.
"""

from cometmq.spark.format import RocketMQSource
from cometmq.spark.register import register
from cometmq.spark.session import session

__all__ = ["RocketMQSource", "register", "session"]
