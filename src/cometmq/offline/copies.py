"""Copies of messages that can be compared: a store, an archive, or anything else with the same interface.

A copy is divided into parts. Each part is read as Arrow batches with the compared columns.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from cometmq.model.errors import SettingsError
from cometmq.offline.archive import read_manifest
from cometmq.offline.archive_read import coverage_of_archive, file_batches, message_files
from cometmq.offline.columns.schema import stored_schema
from cometmq.offline.coverage import Coverage, coverage_of_store
from cometmq.offline.digests import COMPARED, Block
from cometmq.offline.findings import OnFinding
from cometmq.offline.folder import StoreFolder
from cometmq.offline.log_end import check_has_records, is_open, used_files
from cometmq.offline.place import same_place
from cometmq.offline.plan import by_name, log_size, plan_tasks
from cometmq.offline.rows import RowRules, message_batches
from cometmq.offline.topic_manifest import TOPICS_FILE, read_topic_manifest
from cometmq.store.archive_mark import ARCHIVE_FILE


class MessageCopy(Protocol):
    """A set of messages that can be compared with another one, such as a store or an archive; picklable."""

    @property
    def name(self) -> str:
        """Name of the copy for people."""

    def parts(self) -> Mapping[str, Any]:
        """Return the parts of the copy, keyed by name."""

    def size_of(self, part: Any) -> int:
        """Return the size of a part, to show progress: bytes, or for a part of a topic its number of queue offsets."""

    def read(self, part: Any, on_finding: OnFinding) -> Iterator[pa.RecordBatch]:
        """Yield Arrow batches of a part's messages with the compared columns; may call `on_finding` for damage."""

    def may_have(self, part: Any, blocks: AbstractSet[Block]) -> bool:
        """Return whether a part can have messages of some blocks (1,024 offsets of a queue each)."""

    def coverage(self) -> Coverage:
        """Return which messages the copy should hold."""

    def brokers(self) -> set[str]:
        """Return the names of the brokers whose queues the copy has; empty if it names none, as a store."""

    def is_live(self) -> bool:
        """Return whether the copy may be written to at present, or may be incomplete after a kill."""


@dataclass(frozen=True)
class StoreCopy:
    """A store directory whose messages (all, or only of `topics`) can be compared with another copy."""

    name: str
    topics: tuple[str, ...] = ()
    columns: tuple[str, ...] = COMPARED

    @property
    def _folder(self) -> StoreFolder:
        return StoreFolder(self.name)

    def parts(self) -> Mapping[str, Any]:
        """Return ranges of the log, keyed by name; raises StoreDamaged, for example if there is no log."""
        check_has_records(self._folder, used_files(self._folder))
        return by_name(plan_tasks(self._folder))

    def size_of(self, part: Any) -> int:
        """Return the size of a range of the log in bytes."""
        return log_size(part)

    def read(self, part: Any, on_finding: OnFinding) -> Iterator[pa.RecordBatch]:
        """Yield a log range's records as Arrow batches; calls `on_finding` for damage, which may also be a row."""
        rules = RowRules(topics=self.topics, is_crc_checked=False)
        schema = stored_schema(self.columns)
        return message_batches(self._folder, part, schema, rules, on_finding=on_finding)

    def may_have(self, part: Any, blocks: AbstractSet[Block]) -> bool:
        """Return True: any part of a log can have messages of any block."""
        return True

    def coverage(self) -> Coverage:
        """Return which messages the store should hold, by its queue files and the start of its log."""
        return coverage_of_store(self._folder)

    def brokers(self) -> set[str]:
        """Return an empty set: a log does not name its broker."""
        return set()

    def is_live(self) -> bool:
        """Return whether the store has an `abort` file: a broker has it open, or was not stopped cleanly."""
        return is_open(self._folder)


@dataclass(frozen=True)
class ArchiveCopy:
    """An archive whose messages (all, or only of `topics`) can be compared with another copy."""

    name: str
    topics: tuple[str, ...] = ()
    columns: tuple[str, ...] = COMPARED

    def parts(self) -> Mapping[str, Any]:
        """Return the Parquet files with the messages of the archive (or only of `topics`), keyed by path."""
        return {each.path: each for each in message_files(self.name, self.topics)}

    def size_of(self, part: Any) -> int:
        """Return the size of a file in bytes."""
        return int(part.size)

    def read(self, part: Any, on_finding: OnFinding) -> Iterator[pa.RecordBatch]:
        """Yield the messages of a Parquet file as Arrow batches, from its raw records if the archive has such."""
        manifest = read_manifest(self.name)
        is_raw = manifest is not None and manifest.is_raw
        return file_batches(self.name, part, stored_schema(self.columns), is_raw=is_raw)

    def may_have(self, part: Any, blocks: AbstractSet[Block]) -> bool:
        """Return whether the file belongs to one of the blocks' topics."""
        return any(block[0] == part.topic for block in blocks)

    def coverage(self) -> Coverage:
        """Return which messages the archive should hold according to its manifest."""
        return coverage_of_archive(self.name)

    def brokers(self) -> set[str]:
        """Return the names of the brokers whose queues the archive has; an archive of a store names none."""
        manifest = read_topic_manifest(self.name)
        return {queue.broker_name for queue in manifest.queues} if manifest else set()

    def is_live(self) -> bool:
        """Return False: an archive is treated as complete."""
        return False


def folder_copy(
    place: str, topics: Sequence[str] = (), *, columns: Sequence[str] = COMPARED
) -> MessageCopy:
    """Return the archive or store at a path or URI, with all topics or some; raises SettingsError for anything else."""
    folder, only = StoreFolder(same_place(place)), tuple(topics)
    if folder.exists(ARCHIVE_FILE) or folder.exists(TOPICS_FILE):
        return ArchiveCopy(folder.place, only, tuple(columns))
    if folder.exists("commitlog"):
        return StoreCopy(folder.place, only, tuple(columns))
    raise SettingsError(
        f"{place} is neither a store (it has no commitlog) nor an archive (it has no manifest)"
    )
