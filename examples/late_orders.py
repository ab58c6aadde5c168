"""A Spark job of one's own: turnover by ten seconds of the orders' own time, with a watermark for those that come late.

Start a broker first (`cometmq up`; the job needs the extras `spark` and `delta`), and send orders, each some minutes later than the last:

    cometmq send orders-in-time '{"at": "2026-03-01T12:00:00Z", "cents": 500}'

Run `python -m examples.late_orders FOLDER [NAMESERVER]` again and again: the checkpoint in FOLDER holds how far it is. A window goes
into the Delta table once, whenever the job is killed, and when no order for it can come any more: the watermark lies a minute behind the
latest order, and what is older than that is dropped and counted.
"""

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.spark import delta_sink, read_delta, session

TOPIC = "orders-in-time"
SCHEMA = "at TIMESTAMP, cents BIGINT"


def turnover(orders: DataFrame) -> DataFrame:
    """Cents and orders of each ten seconds, by the time that stands in the order."""
    return (
        orders.select(f.from_json(f.col("body").cast("string"), SCHEMA).alias("order"))
        .select("order.*")
        .withWatermark("at", "1 minute")
        .groupBy(f.window("at", "10 seconds").alias("window"))
        .agg(f.sum("cents").alias("cents"), f.count(f.lit(1)).alias("orders"))
        .select(f.col("window.start").alias("start"), "cents", "orders")
    )


def run(spark: SparkSession, nameserver: str, folder: Path) -> int:
    """Take what came since the last run; gives how many orders were too late."""
    orders = (
        spark.readStream.format("rocketmq")
        .options(
            nameServer=nameserver, subscribe=TOPIC, startingOffsets="earliest", columns="body"
        )
        .load()
    )
    checkpoint = str(folder / "checkpoint")
    query = (
        turnover(orders)
        .writeStream.foreachBatch(delta_sink(str(folder / "turnover"), checkpoint))
        .option("checkpointLocation", checkpoint)
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sum(
        operator.numRowsDroppedByWatermark
        for progress in query.recentProgress
        for operator in progress.stateOperators
    )


def windows(spark: SparkSession, folder: Path) -> DataFrame:
    """The windows that are complete."""
    return read_delta(spark, str(folder / "turnover")).orderBy("start")


def main() -> None:
    """Run once, and show the windows that are complete."""
    folder = Path(sys.argv[1])
    nameserver = (
        sys.argv[2] if len(sys.argv) > 2 else os.environ.get("NAMESRV_ADDR", "localhost:9876")
    )
    spark = session("late-orders", master="local[2]")
    late = run(spark, nameserver, folder)
    windows(spark, folder).show()
    print(f"{late} orders were too late")
    spark.stop()


if __name__ == "__main__":
    main()
