"""Registration of CometMQ's data source formats in a Spark session, needed if the session does not find them by itself."""

from pyspark.sql import SparkSession

import pyspark_rocketmq
import pyspark_rocketmq_store

_PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> SparkSession:
    """Register "rocketmq" and "rocketmq-store" in a session, enable filter push-down, and return the session.

    Where CometMQ is installed Spark finds the formats by itself: it searches for top-level modules
    named `pyspark_*`. It does not search packages shipped with `--py-files`.
    """
    # These classes only import and create the real source, which Spark does in a new process for each step.
    spark.dataSource.register(pyspark_rocketmq.DefaultSource)
    spark.dataSource.register(pyspark_rocketmq_store.DefaultSource)
    spark.conf.set(_PUSH_DOWN, "true")
    return spark
