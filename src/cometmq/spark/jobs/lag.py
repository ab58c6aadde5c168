"""The job "lag": how far groups are behind, now or again and again into a history.

Offsets are asked of the brokers; no Spark task is run. Each sample is a file of its own.

Next: cometmq.client.admin
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from time import sleep
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from cometmq.client import Admin
from cometmq.model.clock import Clock
from cometmq.model.errors import SettingsError
from cometmq.net.clock import SystemClock
from cometmq.spark.jobs.field import option
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.manifest import absolute, file_system
from cometmq.spark.jobs.options import JobOptions
from cometmq.spark.jobs.origin import ClusterOptions
from cometmq.spark.options import duration_ms

_SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("ms", "UTC")),
        ("group", pa.string()),
        ("topic", pa.string()),
        ("broker", pa.string()),
        ("queue", pa.int32()),
        ("end", pa.int64()),
        ("committed", pa.int64()),
        ("behind", pa.int64()),
    ]
)


@dataclass(frozen=True, kw_only=True)
class LagOptions(ClusterOptions, JobOptions):
    """Whose lag.

    Attributes:
        group: consumer groups, with commas between.
        topic: topics, with commas between.
        to: a folder for the history; empty: it is only shown.
        every: how long between two samples.
        samples: how many; 0: until Ctrl-C.
        alarm: more messages behind than this, of a queue, are a finding; -1: never.
    """

    group: str = option("Consumer groups, with commas between.")
    topic: str = option("Topics, with commas between.")
    to: str = option("A folder or URI for a history as Parquet.", "")
    every: str = option("How long between two samples: 10s, 1m.", "10s", is_what=False)
    samples: int = option("How many; 0: until Ctrl-C.", 1, is_what=False)
    alarm: int = option("More than so many behind in a queue is a finding; -1: none.", -1)


def run(_spark: SparkSession, options: LagOptions, *, clock: Clock | None = None) -> Report:
    """Say how far groups are behind in each queue, or keep a history of it.

    Raises:
        SettingsError: an interval that is none.
    """
    clock = clock or SystemClock()
    try:
        pause_s = duration_ms(options.every) / 1000
    except ValueError as error:
        raise SettingsError(f"--every: {error}") from None
    taken, rows = 0, list[tuple[Any, ...]]()
    try:
        while True:
            rows = list(_sample(options, clock.now_ms()))
            taken += 1
            if options.to and not options.dry_run:
                _keep(rows, options.to, clock.now_ms())
            if options.dry_run or taken == options.samples:
                break
            sleep(pause_s)
    except KeyboardInterrupt:
        pass
    late = [row for row in rows if 0 <= options.alarm < row[-1]]
    return Report(
        counts={"samples": taken, "behind": sum(row[-1] for row in rows)},
        columns=_SCHEMA.names,
        rows=rows,
        findings=[
            f"{row[1]} is {row[-1]:,} behind in {row[2]}@{row[3]}:{row[4]}" for row in late
        ],
    )


def _sample(options: LagOptions, now_ms: int) -> Iterator[tuple[Any, ...]]:
    at = datetime.fromtimestamp(now_ms / 1000, UTC)
    with Admin(options.nameserver) as admin:
        for topic in options.topic.split(","):
            held = admin.topic_offsets(topic.strip())
            for group in options.group.split(","):
                committed = admin.group_offsets(group.strip(), topic.strip())
                for queue, offsets in sorted(held.items()):
                    done = committed.get(queue)
                    # A group that has never committed has everything before it.
                    behind = offsets.max_offset - max(done or 0, offsets.min_offset)
                    where = queue.topic, queue.broker_name, queue.queue_id
                    yield (at, group.strip(), *where, offsets.max_offset, done, max(behind, 0))


def _keep(rows: list[tuple[Any, ...]], place: str, now_ms: int) -> None:
    """Write a sample: under another name first, so that no reader sees half of it."""
    files, root = file_system(absolute(place))
    columns = [
        pa.array(values, field.type)
        for values, field in zip(zip(*rows, strict=True), _SCHEMA, strict=True)
    ]
    day = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%d")
    files.create_dir(f"{root}/day={day}", recursive=True)
    path = f"{root}/day={day}/lag-{now_ms}.parquet"
    pq.write_table(pa.table(columns, _SCHEMA), f"{root}/_new.parquet", filesystem=files)
    files.move(f"{root}/_new.parquet", path)


JOB = Job("lag", LagOptions, run)
