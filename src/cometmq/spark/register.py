"""Makes the format known to a session that does not find it by itself."""

from pyspark.sql import SparkSession

from cometmq.spark.format import RocketMQSource


def register(spark: SparkSession) -> SparkSession:
    """Register the format "rocketmq" and give the session back.

    Spark finds it without this where CometMQ is installed: it looks for top-level modules named
    `pyspark_*`. It does not look into what `--py-files` brings.
    """
    spark.dataSource.register(RocketMQSource)
    return spark
