"""Where Spark finds the format "rocketmq" by itself.

Spark imports every top-level module named `pyspark_*` and takes its `DefaultSource`. The code
lives in `cometmq.spark`.

Next: cometmq.spark.source
"""

from cometmq.spark.source import RocketMQSource as DefaultSource

__all__ = ["DefaultSource"]
