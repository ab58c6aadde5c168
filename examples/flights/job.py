"""The Spark job: flights from the topic to delays by carrier and hour, and back to a topic.

The aggregation keeps its state over the micro-batches. Spark gives the whole table anew after each
of them (output mode "complete"), which the Parquet sink cannot take; so each batch writes it over
the last one, and a batch that is run again changes nothing.
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from examples.flights.sending import TOPIC
from examples.flights.table import PERCENTILE, Delays, Group

SUMMARY_TOPIC = "flights-by-carrier"
ROWS_PER_BATCH = 80_000
_BODY = "carrier STRING, hour INT, dep_time INT, dep_delay DOUBLE"


def delays_of(flights: DataFrame) -> DataFrame:
    """Departures, mean and 95th percentile of the delay by carrier and hour."""
    flight: Column = f.from_json(f.col("body").cast("string"), _BODY)
    return (
        flights.select(flight.alias("flight"))
        .groupBy("flight.carrier", "flight.hour")
        .agg(
            f.count(f.lit(1)).alias("flights"),
            f.count("flight.dep_time").alias("departures"),
            f.avg("flight.dep_delay").alias("mean"),
            f.percentile("flight.dep_delay", PERCENTILE).alias("percentile"),
        )
    )


def run_stream(
    spark: SparkSession,
    nameserver: str,
    folder: Path,
    *,
    on_batch: Callable[[int], object],
) -> Path:
    """Read the topic to its end in micro-batches and keep the table in Parquet.

    Args:
        spark: the session.
        nameserver: "host:port".
        folder: where the table is written.
        on_batch: told how many flights the table holds after each micro-batch.

    Returns:
        Where the table is.
    """
    table = folder / "delays.parquet"

    def write(delays: DataFrame, _batch: int) -> None:
        delays.coalesce(1).write.mode("overwrite").parquet(str(table))
        total = delays.sparkSession.read.parquet(str(table)).agg(f.sum("flights")).first()
        on_batch(total[0] or 0 if total is not None else 0)

    flights = (
        spark.readStream.format("rocketmq")
        .option("nameServer", nameserver)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ROWS_PER_BATCH)
        .option("columns", "body")
        .load()
    )
    # The broker is new in each run, so the checkpoint must be new as well.
    with TemporaryDirectory(prefix="flights-checkpoint-") as checkpoint:
        query = (
            delays_of(flights)
            .writeStream.outputMode("complete")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .foreachBatch(write)
            .start()
        )
        query.awaitTermination()
    return table


def send_summary(spark: SparkSession, nameserver: str, table: Path) -> int:
    """Send a message for each carrier to a topic; gives how many the topic then holds."""
    delays = spark.read.parquet(str(table))
    carriers = delays.groupBy("carrier").agg(
        f.sum("flights").alias("flights"),
        f.sum("departures").alias("departures"),
        (f.sum(f.col("mean") * f.col("departures")) / f.sum("departures")).alias("mean"),
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


def read_delays(table: Path) -> dict[Group, Delays]:
    """The table as Python values, straight from its file."""
    import pyarrow.parquet

    rows = pyarrow.parquet.read_table(table).to_pylist()
    return {(row.pop("carrier"), row.pop("hour")): Delays(**row) for row in rows}
