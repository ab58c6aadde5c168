"""Copies of messages that can be compared: a store's directory, topics of a cluster, an archive.

Each is cut into parts that a task reads as batches with the columns that are compared.

Next: cometmq.spark.jobs.comparing
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from cometmq.model.errors import SettingsError
from cometmq.offline.archive import ARCHIVE_FILE, read_manifest
from cometmq.offline.archive_read import coverage_of_archive, file_batches, message_files
from cometmq.offline.coverage import Coverage, coverage_of_store
from cometmq.offline.digests import BLOCK_OFFSETS, COMPARED, Block
from cometmq.offline.folder import StoreFolder
from cometmq.offline.log_end import is_open
from cometmq.offline.place import same_place
from cometmq.offline.plan import plan_tasks
from cometmq.offline.rows import RowRules, message_batches
from cometmq.offline.topic_manifest import TOPICS_FILE, read_topic_manifest
from cometmq.spark.jobs.tasks import by_name, log_size
from cometmq.spark.options import words
from cometmq.spark.schema import arrow_schema, message_schema
from cometmq.spark.source import planning
from cometmq.spark.source.client_cluster import source_cluster
from cometmq.spark.source.missing import absences, check_missing
from cometmq.spark.source.planning import PlannedRange
from cometmq.spark.source.pull import RangePuller
from cometmq.spark.source.settings import SourceSettings

PART_ROWS = 100_000  # Offsets of a queue in one part; parts begin at multiples of it.
_SCHEMA = arrow_schema(message_schema(COMPARED))


class Copy(Protocol):
    """A copy of messages; picklable."""

    @property
    def name(self) -> str:
        """For people."""

    def parts(self) -> Mapping[str, Any]:
        """The parts in which the copy is read, by names that are the same in every run."""

    def size_of(self, part: Any) -> int:
        """Bytes of a part, or messages where nobody knows the bytes."""

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """The messages of a part with the columns `COMPARED`."""

    def may_have(self, part: Any, blocks: AbstractSet[Block]) -> bool:
        """Whether a part can have messages of some blocks."""

    def coverage(self) -> Coverage:
        """The messages that the copy should hold."""

    def brokers(self) -> set[str]:
        """The brokers that it names; a store names none."""

    def is_live(self) -> bool:
        """Whether somebody may write to it."""


@dataclass(frozen=True)
class StoreCopy:
    """A store's directory.

    Attributes:
        name: its place.
        topics: only these; none: all.
    """

    name: str
    topics: tuple[str, ...] = ()

    @property
    def _folder(self) -> StoreFolder:
        return StoreFolder(self.name)

    def parts(self) -> Mapping[str, Any]:
        """Ranges of the log."""
        return by_name(plan_tasks(self._folder))

    def size_of(self, part: Any) -> int:
        """Bytes of the log."""
        return log_size(part)

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """The messages of a range of the log."""
        rules = RowRules(topics=self.topics, is_crc_checked=False)
        return message_batches(self._folder, part, _SCHEMA, rules)

    def may_have(self, part: Any, blocks: AbstractSet[Block]) -> bool:
        """Any part of a log can."""
        return True

    def coverage(self) -> Coverage:
        """Each queue from the first message that the log still has."""
        return coverage_of_store(self._folder)

    def brokers(self) -> set[str]:
        """None: a log does not say it."""
        return set()

    def is_live(self) -> bool:
        """Whether a broker has it open."""
        return is_open(self._folder)


@dataclass(frozen=True)
class TopicCopy:
    """Topics of a live cluster.

    Attributes:
        name: the topics, with commas between.
        nameserver: of the cluster.
        broker: only the queues of this one; empty: of all.
    """

    name: str
    nameserver: str
    broker: str = ""

    def _settings(self) -> SourceSettings:
        given = {"nameServer": self.nameserver, "subscribe": self.name}
        return SourceSettings.parse(given, is_stream=False)

    def _ranges(self) -> list[PlannedRange]:
        settings = self._settings()
        cluster = source_cluster(settings)
        covered = planning.covered_queues(settings.topics, cluster)
        missing = absences(settings, covered, cluster)
        check_missing([each for each in missing if self.broker in ("", each.broker)], settings)
        queues = [queue for queue in covered if self.broker in ("", queue.broker_name)]
        return planning.between(
            planning.resolve(settings.starting, queues, cluster),
            planning.resolve(settings.ending, queues, cluster),
        )

    def parts(self) -> Mapping[str, Any]:
        """Ranges of queues."""
        pieces = [piece for each in self._ranges() for piece in pieces_of(each)]
        return {range_name(piece): piece for piece in pieces}

    def size_of(self, part: Any) -> int:
        """Messages of a range."""
        return int(part.rows)

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """The messages of a range of a queue."""
        settings = self._settings()
        return RangePuller(source_cluster(settings), settings, _SCHEMA).batches([part])

    def may_have(self, part: Any, blocks: AbstractSet[Block]) -> bool:
        """Whether the range reaches into one of them."""
        first, last = part.start // BLOCK_OFFSETS, (part.end - 1) // BLOCK_OFFSETS
        return any(
            (topic, number) == (part.queue.topic, part.queue.queue_id)
            and first <= block <= last
            for topic, _, number, block in blocks
        )

    def coverage(self) -> Coverage:
        """Each queue from its first offset on."""
        firsts = {
            (each.queue.topic, each.queue.broker_name, each.queue.queue_id): each.start
            for each in self._ranges()
        }
        return Coverage(firsts)

    def brokers(self) -> set[str]:
        """All that have queues with messages."""
        return {each.queue.broker_name for each in self._ranges()}

    def is_live(self) -> bool:
        """Always."""
        return True


@dataclass(frozen=True)
class ArchiveCopy:
    """An archive.

    Attributes:
        name: its place.
        topics: only these; none: all.
    """

    name: str
    topics: tuple[str, ...] = ()

    def parts(self) -> Mapping[str, Any]:
        """The files of the archive."""
        return {each.path: each for each in message_files(self.name, self.topics)}

    def size_of(self, part: Any) -> int:
        """Bytes of a file."""
        return int(part.size)

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """The messages of a file."""
        manifest = read_manifest(self.name)
        is_raw = manifest is not None and manifest.is_raw
        return file_batches(self.name, part, _SCHEMA, is_raw=is_raw)

    def may_have(self, part: Any, blocks: AbstractSet[Block]) -> bool:
        """Whether the file is of one of their topics."""
        return any(block[0] == part.topic for block in blocks)

    def coverage(self) -> Coverage:
        """The messages that the archive's manifest states."""
        return coverage_of_archive(self.name)

    def brokers(self) -> set[str]:
        """The brokers whose queues the archive holds; an archive of a store names none."""
        manifest = read_topic_manifest(self.name)
        return {queue.broker_name for queue in manifest.queues} if manifest else set()

    def is_live(self) -> bool:
        """False: an archive changes only by the job that makes it."""
        return False


def copy_of(place: str, *, topics: str, nameserver: str, broker: str) -> Copy:
    """The copy that is meant: an archive or a store where there is a folder, else topics.

    Args:
        place: a folder, a URI, or topics with commas between.
        topics: of a store or an archive only these, with commas between.
        nameserver: of the cluster, for topics.
        broker: only its queues, for topics.

    Raises:
        SettingsError: a folder that is neither an archive nor a store.
    """
    is_folder = "/" in place or Path(place).is_dir()
    if not is_folder:
        return TopicCopy(",".join(words(place)), nameserver, broker)
    folder, only = StoreFolder(same_place(place)), tuple(words(topics))
    if folder.exists(ARCHIVE_FILE) or folder.exists(TOPICS_FILE):
        return ArchiveCopy(folder.place, only)
    if folder.exists("commitlog"):
        return StoreCopy(folder.place, only)
    raise SettingsError(
        f"{place} is neither a store (it has no commitlog) nor an archive that says what it holds"
    )


def pieces_of(whole: PlannedRange) -> Iterator[PlannedRange]:
    """A range in pieces that end at multiples of `PART_ROWS`."""
    start = whole.start
    while start < whole.end:
        end = min(whole.end, (start // PART_ROWS + 1) * PART_ROWS)
        yield PlannedRange(whole.queue, start, end)
        start = end


def range_name(part: PlannedRange) -> str:
    """A range of a queue as a text."""
    return f"{part.queue} {part.start}-{part.end}"
