"""Copies of messages that can be compared: a store's directory, an archive, and whatever else has the same face.

Each is cut into parts that are read one by one, as batches with the columns that are compared.
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
from cometmq.offline.findings import Finding, OnFinding
from cometmq.offline.folder import StoreFolder
from cometmq.offline.log_end import check_has_records, damage_behind, is_open, used_files
from cometmq.offline.place import same_place
from cometmq.offline.plan import by_name, log_size, plan_tasks
from cometmq.offline.rows import RowRules, message_batches
from cometmq.offline.topic_manifest import TOPICS_FILE, read_topic_manifest
from cometmq.store.archive_mark import ARCHIVE_FILE


class MessageCopy(Protocol):
    """A copy of messages; picklable."""

    @property
    def name(self) -> str:
        """For people."""

    def parts(self) -> Mapping[str, Any]:
        """The parts in which the copy is read, by names that are the same in every run."""

    def size_of(self, part: Any) -> int:
        """Bytes of a part, or messages where nobody knows the bytes."""

    def read(self, part: Any, on_finding: OnFinding) -> Iterator[pa.RecordBatch]:
        """The messages of a part, with the columns that are compared; `on_finding` is told of bytes that are none."""

    def damage_behind(self) -> Finding | None:
        """The damage behind the last message; None for a plain end."""

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
        columns: what is compared of a message.
    """

    name: str
    topics: tuple[str, ...] = ()
    columns: tuple[str, ...] = COMPARED

    @property
    def _folder(self) -> StoreFolder:
        return StoreFolder(self.name)

    def parts(self) -> Mapping[str, Any]:
        """Ranges of the log.

        Raises:
            StoreDamaged: there is no log, or nothing of it can be read.
        """
        check_has_records(self._folder, used_files(self._folder))
        return by_name(plan_tasks(self._folder))

    def size_of(self, part: Any) -> int:
        """Bytes of the log."""
        return log_size(part)

    def read(self, part: Any, on_finding: OnFinding) -> Iterator[pa.RecordBatch]:
        """The messages of a range of the log."""
        rules = RowRules(topics=self.topics, is_crc_checked=False)
        schema = stored_schema(self.columns)
        return message_batches(self._folder, part, schema, rules, on_finding=on_finding)

    def damage_behind(self) -> Finding | None:
        """Bytes behind the end of a log that nobody writes."""
        behind = damage_behind(self._folder)
        return behind.finding() if behind is not None else None

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
class ArchiveCopy:
    """An archive.

    Attributes:
        name: its place.
        topics: only these; none: all.
        columns: what is compared of a message.
    """

    name: str
    topics: tuple[str, ...] = ()
    columns: tuple[str, ...] = COMPARED

    def parts(self) -> Mapping[str, Any]:
        """The files of the archive."""
        return {each.path: each for each in message_files(self.name, self.topics)}

    def size_of(self, part: Any) -> int:
        """Bytes of a file."""
        return int(part.size)

    def read(self, part: Any, on_finding: OnFinding) -> Iterator[pa.RecordBatch]:
        """The messages of a file."""
        manifest = read_manifest(self.name)
        is_raw = manifest is not None and manifest.is_raw
        return file_batches(self.name, part, stored_schema(self.columns), is_raw=is_raw)

    def damage_behind(self) -> Finding | None:
        """None: an archive is whole."""
        return None

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


def folder_copy(
    place: str, topics: Sequence[str] = (), *, columns: Sequence[str] = COMPARED
) -> MessageCopy:
    """The copy that a folder or a URI holds: an archive, or a store.

    Args:
        place: where it is.
        topics: only these; none: all.
        columns: what is compared of a message.

    Raises:
        SettingsError: it is neither an archive nor a store.
    """
    folder, only = StoreFolder(same_place(place)), tuple(topics)
    if folder.exists(ARCHIVE_FILE) or folder.exists(TOPICS_FILE):
        return ArchiveCopy(folder.place, only, tuple(columns))
    if folder.exists("commitlog"):
        return StoreCopy(folder.place, only, tuple(columns))
    raise SettingsError(
        f"{place} is neither a store (it has no commitlog) nor an archive that says what it holds"
    )
