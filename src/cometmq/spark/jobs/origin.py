"""Origin of a Spark job's messages: topics of a cluster, a store's directory, or an archive's files.

Each can be read as a batch or as a stream; docs/spark/schema.md describes the columns of messages.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from cometmq.model.errors import SettingsError, StoreDamaged
from cometmq.offline.folder import StoreFolder
from cometmq.offline.place import hadoop_place, open_place, read_path
from cometmq.offline.plan import plan_tasks
from cometmq.spark.format import RocketMQSource
from cometmq.spark.jobs.job import Report
from cometmq.spark.jobs.options import option
from cometmq.spark.jobs.tasks import range_plan, task_plan
from cometmq.spark.options import NAME_SERVERS_VARIABLE, time_ms, words
from cometmq.spark.schema import message_schema

_NAMESERVER_DEFAULT = "127.0.0.1:9876"
_TRIGGER_BYTES = 512 << 20  # Maximum bytes of a store's log in one micro-batch.
# Options by which a run may read fewer messages than the plan counts.
_NARROWING = {
    "topic": ("tag", "where"),
    "store": ("topic", "since", "until", "where"),
    "archive": ("since", "until", "where"),
}
_ARCHIVED = "topic=*"  # Folders of an archive with messages; other folders hold metadata.


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Option for the cluster's nameservers; default: NAMESRV_ADDR in this process's environment, or 127.0.0.1:9876."""

    nameserver: str = option("Nameservers, separated by ';'. Default: 127.0.0.1:9876.", "")

    def __post_init__(self) -> None:
        if not self.nameserver:
            found = os.environ.get(NAME_SERVERS_VARIABLE) or _NAMESERVER_DEFAULT
            object.__setattr__(self, "nameserver", found)


@dataclass(frozen=True, kw_only=True)
class FromOptions(ClusterOptions):
    """Options that choose the messages that a job reads, from topics, a store or an archive.

    With a store or an archive, `topic` limits the messages to these topics. `tag` applies only to topics of a cluster.
    """

    topic: str = option("Topics, separated by commas.", "")
    store: str = option("A store directory instead of a cluster.", "")
    archive: str = option("The folder of an archive instead of a cluster.", "")
    tag: str = option("Only messages with these tags, 'a || b'; the broker filters.", "*")
    since: str = option(
        "Only messages stored at or after this time: 2026-05-01T12:00, or ms.", ""
    )
    until: str = option("Only messages stored before this time: 2026-05-01T12:00, or ms.", "")
    where: str = option("Only messages that match this SQL condition on their columns.", "")


def topic_options(options: FromOptions, columns: str) -> dict[str, str]:
    """Return the options of the format "rocketmq" to read the chosen topics; raise SettingsError for a wrong time."""
    given = {
        "nameServer": options.nameserver,
        "subscribe": options.topic,
        "subExpression": options.tag,
        "columns": columns,
    }
    return given | _times(options)


def _times(options: FromOptions) -> dict[str, str]:
    """Return the given bounds of the store time, as options of the formats "rocketmq" and "rocketmq-store"."""
    given = {}
    if options.since:
        given["startingTimestamp"] = str(time_ms(options.since, "--since"))
    if options.until:
        given["endingTimestamp"] = str(time_ms(options.until, "--until"))
    return given


def store_options(options: FromOptions, columns: str) -> dict[str, str]:
    """Return the options of the format "rocketmq-store", except times; by mode FAILFAST, damage in the log is an error."""
    given = {"path": hadoop_place(options.store), "topics": options.topic, "columns": columns}
    return {**given, "mode": "FAILFAST"}


def read_batch(
    spark: SparkSession, options: FromOptions, columns: str = "", **more: str
) -> DataFrame:
    """Return a data frame of the messages that the options select, for a batch query.

    Args:
        spark: Spark session.
        options: Messages to read.
        columns: Required columns, separated by commas; empty for all. Archives always have all.
        more: Further options of the format "rocketmq", used for topics.

    Raises:
        SettingsError: No origin, or both a store and an archive, are given, a time is invalid, or a folder has no archive.
    """
    if _kind(options) == "topic":
        given = {**topic_options(options, columns), **more}
        frame = spark.read.format("rocketmq").options(**given).load()
    elif options.store:
        given = store_options(options, columns)
        given |= _times(options)
        frame = spark.read.format("rocketmq-store").options(**given).load()
    else:
        place = _archive(options.archive)
        files = spark.read.schema(_archived(spark, place)).option("basePath", place)
        frame = files.parquet(f"{read_path(place)}/{_ARCHIVED}")
    return _filtered(frame, options)


def read_stream(
    spark: SparkSession, options: FromOptions, *, rows_max: int, columns: str = ""
) -> DataFrame:
    """Return a streaming data frame of the messages that the options select, existing and future ones.

    Args:
        spark: Spark session.
        options: Messages to read.
        rows_max: Approximate maximum of messages in a micro-batch of topics; 512 MiB for stores, eight files for archives.
        columns: Required columns, separated by commas; empty for all. Archives always have all.

    Raises:
        SettingsError: No origin, or both a store and an archive, are given, a time is invalid, or a folder has no archive.
        CometError: A topic does not exist (TopicNotFound), or no nameserver answers.
    """
    if _kind(options) == "topic":
        # Detect a wrong name here: in the stream, Spark would only report that its planner died. Offline brokers are
        # no error here, because a stream without end waits for them, and one with an end refuses to start itself.
        _queue_ranges({**topic_options(options, "topic"), "failOnDataLoss": "false"}, {})
        # A stream cannot have an end; the filter drops later messages.
        given = topic_options(replace(options, until=""), columns)
        given.setdefault("startingOffsets", "earliest")
        given["maxOffsetsPerTrigger"] = str(rows_max)
        frame = spark.readStream.format("rocketmq").options(**given).load()
    elif options.store:
        given = store_options(options, columns)
        given["maxBytesPerTrigger"] = str(_TRIGGER_BYTES)
        frame = spark.readStream.format("rocketmq-store").options(**given).load()
    else:
        place = _archive(options.archive)
        files = spark.readStream.schema(_archived(spark, place)).option("basePath", place)
        frame = files.option("maxFilesPerTrigger", 8).parquet(f"{read_path(place)}/{_ARCHIVED}")
    return _filtered(frame, options)


def _archive(place: str) -> str:
    """Return the place of an archive as Spark expects it; raise SettingsError if it has no archived messages."""
    folder = StoreFolder(place)
    there = folder.entries(folder.root)
    if not any(each.base_name.startswith("topic=") for each in there):
        raise SettingsError(
            f"--archive {place}: this folder has no archive of messages; name the folder that "
            "`pipeline archive --to` wrote to"
        )
    return hadoop_place(place)


def _archived(spark: SparkSession, place: str) -> StructType:
    """Return the columns of an archive's files; topics are text, though Spark reads a folder named 007 as a number."""
    try:
        there = (
            spark.read.option("basePath", place)
            .parquet(f"{read_path(place)}/{_ARCHIVED}")
            .schema
        )
    except AnalysisException as error:  # Spark cannot derive columns without files.
        raise SettingsError(f"--archive {place}: the archive has no files") from error
    return StructType(
        [
            StructField(each.name, StringType() if each.name == "topic" else each.dataType)
            for each in there.fields
        ]
    )


def plan(options: FromOptions, read: dict[str, Any] | None = None) -> Report:
    """Return the report of a dry run: ranges of queues, parts of a store's log, or files of an archive to read.

    Args:
        options: Messages to read.
        read: Offsets up to which an earlier run has read topics, as in its checkpoint.

    Raises:
        CometError: No origin, or a store and an archive, are given; a topic, broker, store or archive is missing or damaged.
    """
    if _kind(options) == "topic":
        report = _queue_ranges(topic_options(options, "topic"), read or {})
    elif options.store:
        report = task_plan(plan_tasks(StoreFolder(hadoop_place(options.store))))
    else:
        report = _files(options.archive, words(options.topic))
    narrowing = _NARROWING[_kind(options)]
    if left := [f"--{name}" for name in narrowing if getattr(options, name) not in ("", "*")]:
        report.notes.append(
            f"these are upper limits: the plan ignores {', '.join(left)}, which the run applies"
        )
    return report


def _kind(options: FromOptions) -> str:
    given = [name for name in ("store", "archive") if getattr(options, name)]
    if len(given) > 1 or not (given or options.topic):
        raise SettingsError("name the origin of the messages: --topic, --store or --archive")
    return given[0] if given else "topic"


def _filtered(frame: DataFrame, options: FromOptions) -> DataFrame:
    is_of_cluster = _kind(options) == "topic"
    if options.archive:
        # Damaged parts of the log are archived as rows, too, but are no messages.
        frame = frame.where(f.col("topic").isNotNull())
    # A store's reader filters topics itself, and its rows may lack the column.
    if options.topic and not is_of_cluster and "topic" in frame.columns:
        frame = frame.where(
            f.col("topic").isin([each.strip() for each in options.topic.split(",")])
        )
    for text, name in ((options.since, "--since"), (options.until, "--until")):
        if text and "storeTimestamp" in frame.columns:
            stored = f.unix_millis("storeTimestamp")
            bound = time_ms(text, name)
            frame = frame.where(stored >= bound if name == "--since" else stored < bound)
    return frame.where(options.where) if options.where else frame


def _queue_ranges(given: dict[str, str], read: dict[str, Any]) -> Report:
    source = RocketMQSource(given)
    partitions = source.reader(message_schema(["topic"])).partitions()
    left = []
    for each in sorted(part for task in partitions for part in getattr(task, "ranges", ())):
        brokers = read.get(each.queue.topic, {}).get(each.queue.broker_name, {})
        done = brokers.get(str(each.queue.queue_id), each.start)
        left.append(replace(each, start=min(max(each.start, done), each.end)))
    return range_plan(left)


def _files(place: str, topics: Sequence[str]) -> Report:
    """Return a report of an archive's files, of all topics if none are given; StoreDamaged if one is not Parquet."""
    files, root = open_place(_archive(place))
    found = [
        each
        for each in files.get_file_info(fs.FileSelector(root, recursive=True))
        if each.path.endswith(".parquet") and not _is_hidden(each.path.removeprefix(root))
        if not topics or _topic_of(each.path.removeprefix(root)) in topics
    ]
    rows: list[tuple[Any, ...]] = []
    for each in sorted(found, key=lambda file: file.path):
        name = each.path.removeprefix(root).lstrip("/")
        try:
            count = pq.read_metadata(each.path, filesystem=files).num_rows
        except pa.ArrowInvalid as error:
            raise StoreDamaged(
                f"{place}/{name} is not a Parquet file ({error}): archive again into another folder, or remove "
                "this file"
            ) from error
        rows.append((name, each.size, count))
    counts = {
        "files": len(rows),
        "bytes": sum(row[1] for row in rows),
        "rows": sum(row[2] for row in rows),
    }
    return Report(counts, ("file", "bytes", "rows"), rows)


def _topic_of(path: str) -> str:
    """Return the topic of an archive's file from its folder."""
    return unquote(path.lstrip("/").partition("/")[0].removeprefix("topic="))


def _is_hidden(path: str) -> bool:
    """Return whether a part of a path starts with "_" or ".", as those of files that Spark ignores."""
    return any(name.startswith(("_", ".")) for name in path.split("/"))
