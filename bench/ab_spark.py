"""A Spark session of one tree that does a work for each line it reads, and prints what that gave as a line of JSON.

    PYTHON bench/ab_spark.py NAMESERVER STORE ROWS

Works: `source` reads all rows of the topic "Rows" to noop, `sink` writes ROWS rows of 1 KiB to a topic, `store` reads all of STORE to noop,
`window` counts the rows of "Rows" in windows, as a stream of some batches.
Imports nothing of this folder, and of CometMQ what every commit has: the Python that runs it says whose it is.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from cometmq.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES = 4
BODY = "rpad(cast(id AS string), 1024, 'x')"


def main() -> None:
    """Start the session, then do what is asked for."""
    nameserver, store, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
    spark = session("ab", master="local[2]", conf={"spark.driver.memory": "1g"})
    spark.sparkContext.setLogLevel("ERROR")
    works: dict[str, Callable[[], None]] = {
        "source": lambda: source(spark, nameserver),
        "sink": lambda: sink(spark, nameserver, rows),
        "store": lambda: scan(spark, store),
        "window": lambda: window(spark, nameserver, rows),
    }
    for line in sys.stdin:
        began = time.perf_counter()
        works[line.strip()]()
        took = time.perf_counter() - began
        print(json.dumps({"per_second": rows / took, "messages": rows}), flush=True)
    spark.stop()


def source(spark: "SparkSession", nameserver: str) -> None:
    """All rows of a topic, to nowhere."""
    options = {"nameServer": nameserver, "subscribe": "Rows", "startingOffsets": "earliest"}
    rows = spark.read.format("rocketmq").options(**options).load()
    rows.write.format("noop").mode("overwrite").save()


def sink(spark: "SparkSession", nameserver: str, rows: int) -> None:
    """Rows that Spark makes, into a topic."""
    made = spark.range(0, rows, numPartitions=2).selectExpr(f"{BODY} AS body")
    writer = made.write.format("rocketmq").option("nameServer", nameserver)
    writer.option("topic", "Sink").mode("append").save()


def scan(spark: "SparkSession", store: str) -> None:
    """All messages of a store, to nowhere."""
    rows = spark.read.format("rocketmq-store").load(store)
    rows.write.format("noop").mode("overwrite").save()


def window(spark: "SparkSession", nameserver: str, rows: int) -> None:
    """Counts in windows with a watermark, of all rows of a topic in some batches, to nowhere."""
    options = {"nameServer": nameserver, "subscribe": "Rows", "startingOffsets": "earliest"}
    options["maxOffsetsPerTrigger"] = str(rows // BATCHES)
    stream = spark.readStream.format("rocketmq").options(**options).load()
    timed = stream.withWatermark("storeTimestamp", "10 seconds")
    counts = timed.groupBy(f.window("storeTimestamp", "1 second")).count()
    with tempfile.TemporaryDirectory() as folder:
        writer = counts.writeStream.format("noop").outputMode("update")
        writer = writer.option("checkpointLocation", folder).trigger(availableNow=True)
        writer.start().awaitTermination()


if __name__ == "__main__":
    main()
