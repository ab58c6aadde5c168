"""The job "lag": how far groups are behind, now or again and again into a history.

Offsets are asked of the brokers; no Spark task is run. Each sample is a file of its own. A history
outlives a broker that is away: samples that fail are counted and told of, and the next ones are taken.

Next: cometmq.client.admin.admin
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import sleep
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from cometmq.client import Admin, QueueRange, SystemClock
from cometmq.model.clock import Clock
from cometmq.model.errors import BrokerRefused, GroupNotFound, NetError
from cometmq.model.queue import MessageQueue
from cometmq.offline.place import open_place
from cometmq.spark.jobs.field import option
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.options import JobOptions
from cometmq.spark.jobs.origin import ClusterOptions
from cometmq.spark.jobs.run import running
from cometmq.spark.jobs.windows import duration

Row = tuple[Any, ...]

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
        ("consumed", pa.timestamp("ms", "UTC")),
        ("behindMs", pa.int64()),
    ]
)
_BEHIND = _SCHEMA.names.index("behind")


@dataclass(frozen=True, kw_only=True)
class LagOptions(ClusterOptions, JobOptions):
    """Options of the job `lag`.

    Attributes:
        group: consumer groups, with commas between; empty: all that have offsets.
        topic: topics, with commas between; empty: all in which a group has offsets.
        to: a folder for the history; empty: it is only shown.
        every: how long between two samples.
        samples: how many; 0: until Ctrl-C.
        alarm: more messages behind than this, of a queue, are a finding; -1: never.
    """

    group: str = option("Consumer groups, with commas between; else all with offsets.", "")
    topic: str = option("Topics, with commas between; else all that a group consumes.", "")
    to: str = option("A folder or URI for a history as Parquet.", "")
    every: str = option("How long between two samples: 10s, 1m.", "10s", is_what=False)
    samples: int = option("How many; 0: until Ctrl-C.", 1, is_what=False)
    alarm: int = option("More than so many behind in a queue is a finding; -1: none.", -1)


def run(_spark: SparkSession, options: LagOptions) -> Report:
    """Say how far groups are behind in each queue, or keep a history of it."""
    return measure(options)


def measure(options: LagOptions, *, clock: Clock | None = None) -> Report:
    """Measure the lag of groups without Spark.

    Raises:
        SettingsError: an interval that is none.
        GroupNotFound: no broker knows a group.
        NetError, BrokerRefused: the cluster cannot be asked; of a history a sample is missed then.
    """
    clock = clock or SystemClock()
    pause_s = duration(options.every, "--every", smallest=1) / 1000
    if options.dry_run:
        return _report(options, list(_sample(options, clock.now_ms())), taken=0)
    with running("lag", options, place=options.to, clock=clock) as this:
        this.begin_again()
        taken, missed, why, rows = 0, 0, "", list[Row]()
        try:
            while taken + missed != (options.samples or -1):
                if taken or missed:
                    sleep(pause_s)
                try:
                    rows = list(_sample(options, clock.now_ms()))
                except (NetError, BrokerRefused, GroupNotFound) as error:
                    # A group that goes while its history is kept is missed; one that never was is misspelt.
                    is_wrong = isinstance(error, GroupNotFound) and not taken
                    if is_wrong or not options.to or options.samples == 1:
                        raise
                    missed, why = missed + 1, str(error)
                    continue
                if options.to and rows:
                    _keep(rows, options.to, f"{clock.now_ms()}-{this.short_id}")
                taken += 1
        except KeyboardInterrupt:
            pass
        report = _report(options, rows, taken=taken)
        if missed:
            report.findings.append(f"{missed} samples could not be taken; the last: {why}")
        return this.finish(report)


def _report(options: LagOptions, rows: Sequence[Row], *, taken: int) -> Report:
    late = [row for row in rows if 0 <= options.alarm < row[_BEHIND]]
    findings = [
        f"{row[1]} is {row[_BEHIND]:,} behind in {row[2]}@{row[3]}:{row[4]}" for row in late
    ]
    counts = {"samples": taken, "behind": sum(row[_BEHIND] for row in rows)}
    return Report(counts, _SCHEMA.names, list(rows), findings)


def _sample(options: LagOptions, now_ms: int) -> Iterator[Row]:
    at = _time(now_ms)
    with Admin(options.nameserver) as admin:
        groups = _names(options.group) or sorted(admin.groups())
        ranges: dict[str, dict[MessageQueue, QueueRange]] = {}
        for group in groups:
            if options.group:
                admin.lag(group)  # A misspelt group has none, which is an error.
            topics = _names(options.topic)
            if not topics:
                topics = sorted({queue.topic for queue in admin.group_progress(group)})
            for topic in topics:
                held = ranges.get(topic) or admin.topic_offsets(topic)
                ranges[topic] = held
                yield from _queues(admin, at, group, topic, held)


def _queues(
    admin: Admin, at: datetime, group: str, topic: str, held: Mapping[MessageQueue, QueueRange]
) -> Iterator[Row]:
    committed = admin.group_offsets(group, topic)
    told = admin.group_progress(group, topic)
    for queue, offsets in sorted(held.items()):
        done = committed.get(queue)
        # A group that has never committed has everything before it.
        behind = max(offsets.max_offset - max(done or 0, offsets.min_offset), 0)
        consumed_ms = told[queue].consumed_ms if done and queue in told else 0
        consumed = _time(consumed_ms) if consumed_ms else None
        behind_ms: int | None = 0
        if behind:
            behind_ms = (at - consumed) // timedelta(milliseconds=1) if consumed else None
        where = queue.topic, queue.broker_name, queue.queue_id
        yield at, group, *where, offsets.max_offset, done, behind, consumed, behind_ms


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _keep(rows: Sequence[Row], place: str, name: str) -> None:
    """Write a sample: under another name first, so that no reader sees half of it."""
    files, root = open_place(place)
    columns = [
        pa.array(values, field.type)
        for values, field in zip(zip(*rows, strict=True), _SCHEMA, strict=True)
    ]
    folder = f"{root}/day={rows[0][0]:%Y-%m-%d}"
    files.create_dir(folder, recursive=True)
    pq.write_table(pa.table(columns, _SCHEMA), f"{root}/_{name}.parquet", filesystem=files)
    files.move(f"{root}/_{name}.parquet", f"{folder}/lag-{name}.parquet")


JOB = Job("lag", LagOptions, run)
