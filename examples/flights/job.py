"""The Spark side: jobs of the pipeline, a query over what they made, and a summary back to a topic.

The job "table" makes typed rows of the messages (`cometmq pipeline table` is the same function). The
job "stats" counts the topic by carrier, straight from the broker. The query is Spark's own.
"""

import shutil
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.spark.jobs import stats, table
from cometmq.spark.jobs.job import Report
from examples.flights.sending import TOPIC
from examples.flights.table import PERCENTILE, Delays, Group

SUMMARY_TOPIC = "flights-by-carrier"
ROWS_PER_BATCH = 120_000
_BODY = "carrier STRING, hour INT, dep_time INT, dep_delay DOUBLE"


def make_table(spark: SparkSession, nameserver: str, folder: Path) -> tuple[Path, Report]:
    """Make a table of the topic's messages; gives where it is, and the job's report."""
    place = folder / "flights"
    # The broker is new in each run of the demo, and so is what lies in it.
    shutil.rmtree(place, ignore_errors=True)
    options = table.TableOptions(
        nameserver=nameserver,
        topic=TOPIC,
        schema=_BODY,
        to=str(place),
        keep="tags",
        batch_rows=ROWS_PER_BATCH,
    )
    return place, table.run(spark, options)


def count_by_carrier(spark: SparkSession, nameserver: str) -> Report:
    """Count the messages of each carrier's tag in the topic, the most first."""
    options = stats.StatsOptions(nameserver=nameserver, topic=TOPIC, by="tag")
    return stats.run(spark, options)


def delays_of(flights: DataFrame) -> DataFrame:
    """Departures, mean and 95th percentile of the delay by carrier and hour."""
    return flights.groupBy("carrier", "hour").agg(
        f.count(f.lit(1)).alias("flights"),
        f.count("dep_time").alias("departures"),
        f.avg("dep_delay").alias("mean"),
        f.percentile("dep_delay", PERCENTILE).alias("percentile"),
    )


def write_delays(spark: SparkSession, flights: Path, folder: Path) -> Path:
    """Compute the delays from the table of flights; gives where they are."""
    place = folder / "delays.parquet"
    delays = delays_of(spark.read.parquet(str(flights)))
    delays.coalesce(1).write.mode("overwrite").parquet(str(place))
    return place


def send_summary(spark: SparkSession, nameserver: str, delays: Path) -> int:
    """Send a message for each carrier to a topic; gives how many the topic then holds."""
    carriers = (
        spark.read.parquet(str(delays))
        .groupBy("carrier")
        .agg(
            f.sum("flights").alias("flights"),
            f.sum("departures").alias("departures"),
            (f.sum(f.col("mean") * f.col("departures")) / f.sum("departures")).alias("mean"),
        )
    )
    body = f.to_json(f.struct("carrier", "flights", "departures", "mean")).alias("body")
    (
        carriers.select(body, f.col("carrier").alias("tags"))
        .write.format("rocketmq")
        .option("nameServer", nameserver)
        .option("topic", SUMMARY_TOPIC)
        .mode("append")
        .save()
    )
    sent = (
        spark.read.format("rocketmq")
        .option("nameServer", nameserver)
        .option("subscribe", SUMMARY_TOPIC)
        .option("columns", "tags")
        .load()
    )
    return sent.count()


def read_delays(place: Path) -> dict[Group, Delays]:
    """The delays as Python values, straight from their file."""
    import pyarrow.parquet

    rows = pyarrow.parquet.read_table(place).to_pylist()
    return {(row.pop("carrier"), row.pop("hour")): Delays(**row) for row in rows}
