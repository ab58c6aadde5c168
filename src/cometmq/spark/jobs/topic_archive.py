"""Archive of topics of a live cluster: pulled, and written in the format of a store's archive.

    PLACE/topic=orders/dt=2026-11-21/broker-a.0.00000000000000000000-00000000000000005120.parquet
    PLACE/_archive/topics.json     which offsets of which queues the archive holds

The ranges of a round are recorded before it starts, and files are named after them. `topics.json` is updated
at the end. A killed round is therefore finished with the same ranges, and files of unfinished ranges are written again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from cometmq.model import flags
from cometmq.model.errors import SettingsError
from cometmq.model.queue import MessageQueue
from cometmq.model.text import plural
from cometmq.offline.archive import read_manifest
from cometmq.offline.archive_files import ArchivedFile, ArchiveFiles, file_name
from cometmq.offline.columns.pieces import contents, crcs, same
from cometmq.offline.topic_manifest import (
    TopicManifest,
    read_topic_manifest,
    write_topic_manifest,
)
from cometmq.spark.jobs.copies import pieces_of, range_name
from cometmq.spark.jobs.job import Report
from cometmq.spark.jobs.run import Run
from cometmq.spark.jobs.tasks import Row, count_round, range_plan, run_tasks
from cometmq.spark.schema import arrow_schema, message_schema
from cometmq.spark.source import planning
from cometmq.spark.source.cluster import source_cluster
from cometmq.spark.source.missing import check_missing, missing_queues
from cometmq.spark.source.planning import PlannedRange
from cometmq.spark.source.pull import RangePuller
from cometmq.spark.source.settings import SourceSettings
from cometmq.spark.store.schema import MESSAGES, view_schema

_CRC_MASK = 0x7FFFFFFF  # Stored CRCs have no sign bit (UtilAll.crc32 of RocketMQ 5.3.3).


@dataclass(frozen=True)
class TopicArchive:
    """Archive at `place` of a cluster's topics: messages stored before `until_ms`, ms (None: no limit); picklable."""

    nameserver: str
    topics: str
    place: str
    until_ms: int | None = None

    def _settings(self) -> SourceSettings:
        # Messages that retention deletes during the read are no error; `archive_round` reports their number.
        given = {
            "nameServer": self.nameserver,
            "subscribe": self.topics,
            "failOnDataLoss": "false",
        }
        if self.until_ms is not None:
            given["endingTimestamp"] = str(self.until_ms)
        return SourceSettings.parse(given, is_stream=False)

    def manifest(self) -> TopicManifest:
        """Return the archive's manifest, empty without one; SettingsError for a store's archive, StoreDamaged for damage."""
        if read_manifest(self.place) is not None:
            raise SettingsError(
                f"{self.place} is an archive of a store: use another folder for topics"
            )
        return read_topic_manifest(self.place) or TopicManifest({})

    def plan(self) -> list[PlannedRange]:
        """Return the ranges of queue offsets to archive, at most 100,000 each; queues of unregistered brokers are left out."""
        settings, manifest = self._settings(), self.manifest()
        cluster = source_cluster(settings)
        queues = planning.covered_queues(settings.topics, cluster)
        # Only a warning: the next run archives the missing queues, while retention deletes messages of the others.
        check_missing(missing_queues(settings, queues, cluster), settings)
        starts = planning.resolve(settings.starting, queues, cluster)
        ends = planning.resolve(settings.ending, queues, cluster)
        # If retention was faster than the archive, the range includes the gap, so that its messages are reported as lost.
        new = {queue: manifest.end(queue) for queue in queues}
        starts = {queue: starts[queue] if at is None else at for queue, at in new.items()}
        return [piece for each in planning.between(starts, ends) for piece in pieces_of(each)]

    def planned(self) -> Report:
        """Return the report of a dry run: the ranges that are not archived yet."""
        return range_plan(self.plan())

    def archive(self, part: PlannedRange) -> list[ArchivedFile]:
        """Write the files of a range of a queue and return them; may be repeated, and run in parallel for other ranges.

        Raises:
            CometError: The broker does not answer, or its answer cannot be decoded.
            OSError: A file cannot be written.
        """
        settings = self._settings()
        reader = RangePuller(source_cluster(settings), settings, arrow_schema(message_schema()))
        queue = part.queue
        name = f"{quote(queue.broker_name, safe='')}.{queue.queue_id}."
        name += file_name(part.start, part.end)
        return list(ArchiveFiles(self.place, name).write(_as_of_store(reader.batches([part]))))

    def mean_size(self, parts: Sequence[PlannedRange]) -> float:
        """Estimate the mean size of a stored message in bytes, for the progress; 0 if it is unknown."""
        return planning.mean_size(parts, source_cluster(self._settings())) or 0.0

    def finish(self, parts: Sequence[PlannedRange]) -> None:
        """Record in the archive's manifest that the given ranges of offsets are archived."""
        ranges = [(part.queue, (part.start, part.end)) for part in parts]
        write_topic_manifest(self.place, self.manifest().with_ranges(ranges))


def _as_of_store(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches of topics' messages with the columns of a store's archive added."""
    schema = arrow_schema(view_schema(MESSAGES))
    for batch in batches:
        more = {"valid": _sound(batch), "storeFile": same("", batch.num_rows)}
        arrays = [
            more[field.name] if field.name in more else batch.column(field.name)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _sound(batch: pa.RecordBatch) -> pa.Array:
    """Return for each body whether it matches its record's CRC; true if compressed: the CRC is of compressed bytes."""
    octets, _, ends = contents(batch.column("body"))
    is_packed = (np.asarray(batch.column("sysFlag")) & flags.COMPRESSED) != 0
    return pa.array(
        is_packed | ((crcs(octets, ends) & _CRC_MASK) == np.asarray(batch.column("bodyCrc")))
    )


def archive_round(spark: SparkSession, run: Run, archive: TopicArchive) -> list[str]:
    """Archive the messages that the archive lacks; if an earlier call was killed, only finish its ranges.

    Returns:
        A line of text for each range with fewer messages than offsets, mostly because retention deleted them.

    Raises:
        CometError: The place is an archive of a store (SettingsError), or the ranges cannot be planned.
        Py4JJavaError: A range could not be archived; PySparkException with Spark Connect.
    """
    manifest = run.manifest
    if not manifest.ahead:
        parts = archive.plan()
        if not parts:
            return []
        run.begin_again()
        manifest.ahead = {
            "queues": [[*astuple(each.queue), each.start, each.end] for each in parts]
        }
        run.save()
    parts = [
        PlannedRange(MessageQueue(*queue), start, end)
        for *queue, start, end in manifest.ahead["queues"]
    ]
    size = archive.mean_size(parts)

    def work(part: PlannedRange) -> list[Row]:
        return [[file.rows, file.size, file.path] for file in archive.archive(part)]

    named = {range_name(part): part for part in parts}
    expected = sum(part.rows for part in parts)
    files = run_tasks(
        spark, run, named, work, size_of=lambda part: int(part.rows * size),
        rows_of=lambda rows: sum(row[0] for row in rows), rows_total=expected,
    )  # fmt: skip
    archive.finish(parts)
    found = {each["task"]: sum(row[0] for row in each["rows"]) for each in manifest.ranges}
    lost = {name: part.rows - found[name] for name, part in named.items()}
    count_round(run, files, end={})
    return [
        f"{name}: {count:,} {plural(count, 'message was', 'messages were')} deleted before they were archived"
        for name, count in lost.items()
        if count > 0
    ]
