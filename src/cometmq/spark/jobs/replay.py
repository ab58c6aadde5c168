"""Job "replay": sends messages of a topic, a store or an archive to a topic again."""

from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from cometmq.connect import SystemClock
from cometmq.model.clock import Clock
from cometmq.model.errors import SettingsError
from cometmq.spark.jobs.connect_session import check_has_driver
from cometmq.spark.jobs.field import option
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.origin import FromOptions, plan, read_batch, read_stream
from cometmq.spark.jobs.run import read_before, running
from cometmq.spark.jobs.sending import SENT_COLUMNS, SendTarget, resent
from cometmq.spark.jobs.streaming import FlowOptions, drain
from cometmq.spark.jobs.time_map import TimeMap, check_speed
from cometmq.spark.options import words

STATE_DEFAULT = "cometmq-jobs"


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
