"""Makes the formats known to a session that does not find them by itself."""

from pyspark.sql import SparkSession

import pyspark_rocketmq
import pyspark_rocketmq_store

_PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> SparkSession:
    """Register "rocketmq" and "rocketmq-store", let filters reach them, and give the session back.

    Spark finds the formats without this where CometMQ is installed: it looks for top-level modules
    named `pyspark_*`. It does not look into what `--py-files` brings.
    """
    # Their names only: Spark asks each class in a process of its own.
    spark.dataSource.register(pyspark_rocketmq.DefaultSource)
    spark.dataSource.register(pyspark_rocketmq_store.DefaultSource)
    spark.conf.set(_PUSH_DOWN, "true")
    return spark
