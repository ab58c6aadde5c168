"""Job "replay": sends messages of a topic, a store or an archive to a topic again."""

import math
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.connect import SystemClock
from cometmq.model.clock import Clock
from cometmq.model.errors import SettingsError
from cometmq.spark.jobs.connect_session import check_has_driver
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.manifest import Manifest
from cometmq.spark.jobs.options import option
from cometmq.spark.jobs.origin import FromOptions, plan, read_batch, read_stream
from cometmq.spark.jobs.run import read_before, running
from cometmq.spark.jobs.sending import SENT_COLUMNS, SendTarget, resent
from cometmq.spark.jobs.streaming import FlowOptions, drain
from cometmq.spark.options import time_ms, words

STATE_DEFAULT = "cometmq-jobs"


@dataclass(frozen=True)
class TimeMap:
    """Mapping of store times to delivery times, `start + (stored - first) / speed`; all times in ms since 1970.

    `first` and `start` are determined once and recorded in the manifest, for resumed runs.

    Attributes:
        first_ms: Store time of the first message; `start_ms`, like `last_ms`, if there was no message.
        start_ms: Delivery time of the first message.
        last_ms: Store time of the last message that existed at the start.
        speed: 2.0 delivers an hour's messages in half an hour.
    """

    first_ms: int
    start_ms: int
    last_ms: int
    speed: float = 1.0

    @classmethod
    def over(cls, messages: DataFrame, *, start: str, speed: float, now_ms: int) -> "TimeMap":
        """Create the mapping for messages; without `start`, the first stored one is delivered at `now_ms`.

        Raises:
            SettingsError: The start is no time, or the last message would be due after the year 9999.
        """
        start_ms = time_ms(start, "--map-start") if start else now_ms
        stored = f.unix_millis("storeTimestamp")
        found = messages.agg(f.min(stored), f.max(stored)).first()
        first, last = found if found is not None and found[0] is not None else (start_ms,) * 2
        made = cls(first, start_ms, last, speed)
        try:
            str(made)
        except (ValueError, OverflowError):
            raise SettingsError(
                f"--map-speed {speed}: the last message would be due after the year 9999; use a higher speed"
            ) from None
        return made

    @classmethod
    def noted(cls, manifest: Manifest) -> "TimeMap | None":
        """Return the mapping that an earlier run has recorded in its manifest, or None."""
        return cls(**manifest.ranges[0]) if manifest.ranges else None

    def note(self, manifest: Manifest) -> None:
        """Record the mapping in the manifest, for resumed runs."""
        manifest.ranges = [asdict(self)]

    def delivery_ms(self, stored_ms: int) -> int:
        """Return when a message stored at this time is delivered again: from `start_ms` on, at `speed`; ms since 1970."""
        return self.start_ms + math.floor((stored_ms - self.first_ms) / self.speed)

    def column(self) -> Column:
        """Return a column with the delivery times of rows, as timestamps, computed from their `storeTimestamp`."""
        passed = f.unix_millis("storeTimestamp") - f.lit(self.first_ms)
        scaled = f.floor(passed / f.lit(self.speed)).cast("bigint")
        return f.timestamp_millis(f.lit(self.start_ms) + scaled)

    def __str__(self) -> str:
        """Return the ranges of store and delivery times, for the report."""
        stored = f"{_said(self.first_ms)} to {_said(self.last_ms)}"
        due = f"{_said(self.start_ms)} to {_said(self.delivery_ms(self.last_ms))}"
        return f"stored {stored}, delivered {due}"


def check_speed(speed: float) -> None:
    """Raise SettingsError unless a speed is positive and finite."""
    if not (speed > 0 and math.isfinite(speed)):
        raise SettingsError(f"--map-speed {speed}: it must be above 0; 2 is twice as fast")


def _said(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(FromOptions, FlowOptions):
    """Options of the job `replay`, which sends messages of a topic, store or archive to a topic again."""

    to_topic: str = option("The topic to send the messages to.")
    to_nameserver: str = option("Nameservers of another cluster. Default: the same.", "")
    map_time: bool = option("Deliver them at the intervals at which they were stored.", False)
    map_start: str = option("With --map-time: delivery time of the first. Default: now.", "")
    map_speed: float = option("With --map-time: 2 is twice as fast.", 1.0)
    state: str = option("Folder for manifest and checkpoint.", STATE_DEFAULT, is_what=False)


def run(spark: SparkSession, options: ReplayOptions, *, clock: Clock | None = None) -> Report:
    """Send messages of a topic, a store or an archive to a topic again.

    The copies keep the message ids; the property REPLAY_OF has the origin of each. The next run with the same options
    and `state` continues a killed run, and omits messages of the interrupted micro-batch that the target already has.

    Raises:
        SettingsError: With `follow`, `to_topic` is one of the replayed topics of the same nameserver, or an option is invalid.
    """
    check_has_driver(spark, options, "replay")
    _check(options)
    clock = clock or SystemClock()
    if options.dry_run:
        report = plan(options, read_before("replay", options, options.state))
        if options.map_time:
            report.notes.append(str(_times(spark, options, clock)))
        return report
    with running("replay", options, place=options.state, clock=clock) as this:
        notes, times = list[str](), None
        if options.map_time:
            times = TimeMap.noted(this.manifest) or _times(spark, options, clock)
            times.note(this.manifest)
            this.save()
            notes.append(str(times))
        nameserver = options.to_nameserver or options.nameserver
        target = SendTarget(this, nameserver, [options.to_topic], is_timed=options.map_time)
        messages = read_stream(
            spark, options, rows_max=options.rows_max, columns=",".join(SENT_COLUMNS)
        )
        due = times.column() if times else None
        sent = resent(messages, f.lit(options.to_topic), due=due)
        drain(sent, this, options, target.send)
    return this.report(notes=notes)


def _check(options: ReplayOptions) -> None:
    is_same = options.to_nameserver in ("", options.nameserver)
    if options.follow and is_same and options.to_topic in words(options.topic):
        raise SettingsError("--follow would read what it sends: use another --to-topic")
    if not options.map_time and (options.map_start or options.map_speed != 1):
        raise SettingsError("--map-start and --map-speed need --map-time")
    check_speed(options.map_speed)


def _times(spark: SparkSession, options: ReplayOptions, clock: Clock) -> TimeMap:
    # A condition may use any column.
    messages = read_batch(spark, options, "" if options.where else "topic,storeTimestamp")
    return TimeMap.over(
        messages, start=options.map_start, speed=options.map_speed, now_ms=clock.now_ms()
    )


JOB = Job("replay", ReplayOptions, run)
