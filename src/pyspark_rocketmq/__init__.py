"""Where Spark finds the format "rocketmq" by itself.

Spark imports every top-level module named `pyspark_*` and takes its `DefaultSource`. The code
lives in `cometmq.spark`.

Next: cometmq.spark.format
"""

from cometmq.spark.format import RocketMQSource as DefaultSource

__all__ = ["DefaultSource"]
