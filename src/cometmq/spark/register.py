"""Makes the formats known to a session that does not find them by itself."""

from pyspark.sql import SparkSession

from cometmq.spark.format import RocketMQSource
from cometmq.spark.store.format import RocketMQStoreSource

_PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> SparkSession:
    """Register "rocketmq" and "rocketmq-store", let filters reach them, and give the session back.

    Spark finds the formats without this where CometMQ is installed: it looks for top-level modules
    named `pyspark_*`. It does not look into what `--py-files` brings.
    """
    spark.dataSource.register(RocketMQSource)
    spark.dataSource.register(RocketMQStoreSource)
    spark.conf.set(_PUSH_DOWN, "true")
    return spark
