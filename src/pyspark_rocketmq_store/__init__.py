"""Where Spark finds the format "rocketmq-store" by itself, as `pyspark_rocketmq` is for "rocketmq".

Next: cometmq.spark.store.format
"""

from cometmq.spark.store.format import RocketMQStoreSource as DefaultSource

__all__ = ["DefaultSource"]
