"""Rows of the section `face` that need Spark: sinks by column, a backlog with a watermark, changes of a table."""

import asyncio
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from cometmq import AsyncAdmin, AsyncProducer, Message
from cometmq.embedded import Embedded
from cometmq.embedded.virtual import Virtual
from cometmq.spark import session
from cometmq.spark.jobs.cdc import CdcOptions
from cometmq.spark.jobs.run import running
from cometmq.spark.jobs.versions import GONE, NewestByKey

Measured = dict[str, Any]
SINK_ROWS, SINK_TURNS = 200_000, 3
BODY = "rpad(cast(id AS string), 1024, 'x')"
# What the sink reads of each row, beside its body.
SINKS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "topic": ("concat('Sink', id % 2) AS topic",),
    "key": ("concat('k', id % 1000) AS shardingKey",),
}
BACKLOG, BACKLOG_ROWS = "Backlog", 100_000
WINDOW, WATERMARK, TRIGGER_ROWS = "10 seconds", "1 minute", 500
# Shares of the rows by queue, and the part of the hour in which each was filled: unlike in length and in age.
QUEUES = ((0.4, 0.0, 1.0), (0.3, 0.0, 0.5), (0.2, 0.5, 1.0), (0.1, 0.9, 1.0))
HOUR_MS, STEPS = 3_600_000, 720
OPEN_AT_THE_END = timedelta(minutes=3)
Windows = Counter[datetime]
CHANGES = 10_000
SECONDS_MAX = 900


class SparkFace:
    """One session and one broker, whose topic has an hour of messages when it starts.

    Args:
        folder: where the files lie.
        keys: of the table that changes are merged into.
    """

    def __init__(self, folder: Path, *, keys: int) -> None:
        self._folder = folder
        self._keys = keys
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        make_backlog(self._folder / "mq")
        with ExitStack() as stack:
            self._mq = stack.enter_context(Embedded(self._folder / "mq"))
            conf = {"spark.driver.memory": "2g"}
            self._spark = session("face", master="local[2]", conf=conf)
            stack.callback(self._spark.stop)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def rows(self, number: int) -> dict[str, Measured]:
        """Of one round."""
        return {
            "sink": self.sinks(),
            "backlog": self.backlog(),
            "changes": self.changes(number),
        }

    def sinks(self) -> Measured:
        """How fast rows are written where each says its topic or its sharding key, of those that say nothing."""
        self.sink("plain")
        turns = [{name: self.sink(name) for name in SINKS} for _ in range(SINK_TURNS)]
        return {
            "per_second": median(rates["plain"] for rates in turns),
            **{
                f"kept_{name}": median(rates[name] / rates["plain"] for rates in turns)
                for name in SINKS
            },
        }

    def sink(self, name: str) -> float:
        """Rows a second of one way to say where they go."""
        rows = self._spark.range(0, SINK_ROWS, numPartitions=2)
        rows = rows.selectExpr(f"{BODY} AS body", *SINKS[name])
        options = {"nameServer": self._mq.nameserver, "topic": "Sink0"}
        began = time.perf_counter()
        rows.write.format("rocketmq").options(**options).mode("append").save()
        return SINK_ROWS / (time.perf_counter() - began)

    def backlog(self) -> Measured:
        """A stream that catches up an hour: windows as in one batch, and its rate by time and by shares."""
        options = {"nameServer": self._mq.nameserver, "subscribe": BACKLOG}
        whole = windows_of(self._spark.read.format("rocketmq").options(**options).load())
        right = {row["at"]["start"]: row["n"] for row in whole.collect()}
        assert sum(right.values()) == BACKLOG_ROWS
        # The first stream of a session is slower than those behind it, so one by shares goes before and one behind.
        _, took_before = self.catch_up(options, "offsets")
        by_time, took = self.catch_up(options, "time")
        _, took_behind = self.catch_up(options, "offsets")
        # Windows that the watermark has not passed stay open at the end of a stream.
        open_from = max(right) - OPEN_AT_THE_END
        done = {at: count for at, count in right.items() if at < open_from}
        equal = sum(by_time.get(at) == count for at, count in done.items())
        return {
            "equal": equal / len(done),
            "windows": len(done),
            "per_second": BACKLOG_ROWS / took,
            "of_offsets": (took_before + took_behind) / 2 / took,
        }

    def catch_up(self, options: dict[str, str], admission: str) -> tuple[Windows, float]:
        """The windows that a stream gives, and the seconds that it takes."""
        limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(TRIGGER_ROWS)}
        reader = self._spark.readStream.format("rocketmq").options(**options, **limits)
        rows = reader.option("admission", admission).load()
        found: Windows = Counter()

        def write(part: DataFrame, _number: int) -> None:
            found.update({row["at"]["start"]: row["n"] for row in part.collect()})

        with tempfile.TemporaryDirectory(dir=self._folder) as checkpoint:
            began = time.perf_counter()
            query = (
                windows_of(rows.withWatermark("storeTimestamp", WATERMARK))
                .writeStream.foreachBatch(write)
                .outputMode("append")
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            assert query.awaitTermination(SECONDS_MAX), "the stream does not end"
            return found, time.perf_counter() - began

    def changes(self, number: int) -> Measured:
        """What a micro-batch of changes costs, of writing the whole table."""
        place = str(self._folder / f"table{number}")
        options = CdcOptions(
            nameserver=self._mq.nameserver, topic=BACKLOG, schema="id BIGINT, name STRING",
            key="id", to=place, progress="none",
        )  # fmt: skip
        order = f.struct("_ts", "_offset")
        with running("cdc", options, place=place) as this:
            table = NewestByKey(this, place, ["id"], order)
            whole = self.changed(self._keys, 0)
            began = time.perf_counter()
            table.merge(whole, 0)
            rewritten = time.perf_counter() - began
            few = self.changed(CHANGES, 1)
            began = time.perf_counter()
            table.merge(few, 1)
            took = time.perf_counter() - began
        return {"seconds": took, "of_whole": took / rewritten, "keys": self._keys}

    def changed(self, count: int, version: int) -> DataFrame:
        """Changes of so many keys, all over the table."""
        step = self._keys // count
        return self._spark.range(0, count, numPartitions=2).selectExpr(
            f"id * {step} AS id", f"concat('name-', id, '-{version}') AS name",
            f"CAST({version} AS BIGINT) AS _ts", "id AS _offset", f"false AS {GONE}",
        )  # fmt: skip


def windows_of(rows: DataFrame) -> DataFrame:
    """Messages by window of time."""
    return rows.groupBy(f.window("storeTimestamp", WINDOW).alias("at")).agg(
        f.count("*").alias("n")
    )


def make_backlog(folder: Path) -> None:
    """An hour of messages up to now, in queues of unlike length and age, stored under virtual time."""
    begin = int(time.time() * 1000) - HOUR_MS - 60_000
    settings = {"defaultTopicQueueNums": len(QUEUES)}
    with Virtual(folder, settings=settings, start_ms=begin) as mq:
        mq.run(fill(mq))


async def fill(mq: Virtual) -> None:
    """Send to each queue what is due, step by step of time."""
    due: list[Counter[int]] = [Counter() for _ in range(STEPS)]
    for queue, (share, begin, end) in enumerate(QUEUES):
        count = round(share * BACKLOG_ROWS)
        for number in range(count):
            due[int((begin + (end - begin) * number / count) * STEPS)][queue] += 1
    async with AsyncAdmin(mq.nameserver) as admin, AsyncProducer(mq.nameserver) as producer:
        await admin.topics.create(BACKLOG, queues=len(QUEUES))
        queues = sorted(await producer.queues(BACKLOG), key=lambda each: each.queue_id)
        start = mq.now_ms()
        for moment in range(STEPS):
            counts = due[moment]
            for queue, count in counts.items():
                messages = [Message(BACKLOG, b"m")] * count
                await producer.send_batch(messages, queue=queues[queue])
            wait = start + (moment + 1) * HOUR_MS // STEPS - mq.now_ms()
            await asyncio.sleep(wait / 1000)
