"""Batch consume queues: queues of topics that a Java broker created with `queue.type=BatchCQ`.

    batchconsumequeue/TOPIC/QUEUE_ID/00000000000013800000     46 bytes an entry

A record of such a topic is a batch of messages with a queue offset each. CometMQ reads these queues and keeps
them in step with the log (cometmq.store.derived), but refuses sends to them (cometmq.store.queue_table). Such topics
are rare, so nothing here is fast: each access to an entry reads its file and may block.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import ClassVar, NamedTuple

from cometmq.codec.other_queues import (
    BATCH_ENTRY_SIZE,
    BatchEntry,
    decode_batch_entry,
    encode_batch_entry,
)
from cometmq.codec.properties import find_property
from cometmq.codec.record import Record, decode_records
from cometmq.model.errors import CodecError
from cometmq.model.flags import INNER_BATCH
from cometmq.model.properties import INNER_BASE, INNER_NUM
from cometmq.store.batch import Batch
from cometmq.store.commitlog import CommitLog
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.derived import Derived, Step
from cometmq.store.disk import Disk, opened, write_whole
from cometmq.store.file_chain import NAME_DIGITS
from cometmq.store.queue_files import remove_topic, remove_tree
from cometmq.store.queue_table import QueueTable
from cometmq.store.reader import GetResult, GetStatus, Match
from cometmq.store.stored_record import is_directory_name, tags_code

BATCH_DIRECTORY = "batchconsumequeue"
FILE_SIZE_DEFAULT = 300_000 * BATCH_ENTRY_SIZE  # mapperFileSizeBatchConsumeQueue
_NO_ENTRY = BatchEntry(0, 0, 0, 0, 0, 0)


class BatchQueue(ConsumeQueue):
    """A batch queue: its offsets count messages, and each of its entries points to a record with one or more.

    Attributes:
        first_entry: Number of the first entry that has a file.
        end_entry: Number after the last entry.
        file_size: Size of its files in bytes.
        physical_offset: Physical offset of the last record with an entry; -1 if there is none.
    """

    __slots__ = ("end_entry", "file_size", "first_entry", "physical_offset")

    is_batch: ClassVar[bool] = True

    def __init__(self, topic: str, queue_id: int) -> None:
        super().__init__(topic, queue_id)
        self.file_size = FILE_SIZE_DEFAULT
        self.first_entry = self.end_entry = 0
        self.physical_offset = -1


class _Cut(NamedTuple):
    """A queue to truncate.

    Attributes:
        kept: Entry number after the kept entries.
        stop: Entry number after all present entries.
        end: New max offset.
        physical_offset: Physical offset of the last kept record; -1 if there is none.
    """

    queue: BatchQueue
    kept: int
    stop: int
    end: int
    physical_offset: int


class BatchQueues(Derived):
    """All batch queues of a store, which are in the table of all queues; new entries are synced as they are written."""

    def __init__(
        self, disk: Disk, root: str, log: CommitLog, table: QueueTable, *, read_only: bool
    ) -> None:
        self._disk = disk
        self._root = f"{root}/{BATCH_DIRECTORY}"
        self._log = log
        self._read_only = read_only
        self._table = table
        # Truncated queues whose files still hold the hidden entries.
        self._hidden: list[_Cut] = []

    def __iter__(self) -> Iterator[BatchQueue]:
        return (queue for queue in self._table if isinstance(queue, BatchQueue))

    def find(self, topic: str, queue_id: int) -> BatchQueue | None:
        """Return a batch queue of a topic, or None if there is none with this id."""
        queue = self._table.find(topic, queue_id)
        return queue if isinstance(queue, BatchQueue) else None

    def topics(self) -> list[str]:
        """Return the topics with batch queues."""
        return list(dict.fromkeys(queue.topic for queue in self))

    def delete_topic(self, topic: str) -> None:
        """Delete the batch queues of a topic; on OSError some files remain, but all of the queues are forgotten."""
        for queue in self._table.of_topic(topic):
            if queue.is_batch:
                self._table.remove(queue)
        remove_topic(self._disk, f"{self._root}/{topic}")

    def delete_queue(self, queue: BatchQueue) -> None:
        """Delete one batch queue; on OSError some of its files remain, but it is forgotten."""
        self._table.remove(queue)
        remove_tree(self._disk, self._directory(queue))

    # --- derived from the log

    def load(self, *, is_clean: bool, log_start: int) -> int | None:
        """Load the existing batch queues into the table of queues.

        Return the physical offset from which records must be fed again, -1 if a queue has no entries; None after a
        clean stop, or without any queue.
        """
        for topic in self._disk.list_names(self._root):
            for name in self._disk.list_names(f"{self._root}/{topic}"):
                if name.isdigit() and self.find(topic, int(name)) is None:
                    queue = BatchQueue(topic, int(name))
                    self._load(queue, log_start)
                    self._table.add(queue)
        if is_clean:
            return None
        return min((queue.physical_offset for queue in self), default=None)

    def feed(self, batch: Batch) -> None:
        """Add missing queue entries for valid records flagged as INNER_BATCH, if `batch` was received or recovered as bytes."""
        if batch.raw is None or not batch.raw.kinds & INNER_BATCH:
            return
        fresh: dict[BatchQueue, list[BatchEntry]] = {}
        for record in decode_records(batch.raw.content):
            if record[7] & INNER_BATCH and is_directory_name(record.topic):
                self._feed_one(record, fresh)
        if not self._read_only:
            for queue, entries in fresh.items():
                self._append(queue, entries)

    def _feed_one(self, record: Record, fresh: dict[BatchQueue, list[BatchEntry]]) -> None:
        entry = entry_of(record)
        if entry is None:
            return
        key = record.topic, record.queue_id
        queue = self.find(*key)
        if queue is None:
            queue = BatchQueue(*key)
            self._table.add(queue)
        if record.physical_offset <= queue.physical_offset:
            return
        if not queue.max_offset:
            queue.begin_at(entry.first_offset)
        fresh.setdefault(queue, []).append(entry)
        queue.physical_offset = entry.physical_offset
        queue.max_offset = queue.next_offset = entry.first_offset + entry.message_count

    def hide_from(self, offset: int) -> Iterator[Step]:
        """Yield a step to hide messages of records from an offset on (`cometmq.store.derived`); none if read-only."""
        if self._read_only:
            return
        found: list[_Cut] = []
        # Also runs in the thread, because it goes over all queues to find the few batch queues.
        yield partial(self._find_cuts, offset, found)
        for cut in found:
            queue = cut.queue
            if cut.end <= queue.min_offset:
                queue.begin_at(cut.end)
            queue.max_offset = queue.next_offset = cut.end
            queue.end_entry, queue.physical_offset = cut.kept, cut.physical_offset
        self._hidden = found

    def _find_cuts(self, log_end: int, found: list[_Cut]) -> None:
        for queue in self:
            if queue.physical_offset < log_end:
                continue
            kept = self._border(
                queue,
                queue.first_entry,
                queue.end_entry,
                lambda entry: entry.is_written and entry.physical_offset < log_end,
            )
            end, place = 0, -1
            if kept > queue.first_entry:
                last = self._entry(queue, kept - 1)
                end, place = last.first_offset + last.message_count, last.physical_offset
            found.append(_Cut(queue, kept, queue.end_entry, end, place))

    def truncate(self, offset: int) -> Iterator[Step]:
        """Yield steps that remove from the queue files the entries that `hide_from` has hidden."""
        hidden, self._hidden = self._hidden, []
        if hidden:
            yield partial(self._clear, hidden)

    def _clear(self, cuts: Sequence[_Cut]) -> None:
        for queue, kept, stop, _, _ in cuts:
            # From the last one back, each synced: a stop must leave no hole before an entry, as a start would accept that entry.
            for number in reversed(range(kept, stop)):
                path, at = self._place(queue, number)
                with opened(self._disk, path) as fd:
                    write_whole(self._disk, fd, bytes(BATCH_ENTRY_SIZE), at)
                    self._disk.fdatasync(fd)

    def _load(self, queue: BatchQueue, log_start: int) -> None:
        """Set the first and last entry of a batch queue from its files, and its first message still in the log."""
        directory = self._directory(queue)
        names = [name for name in self._disk.list_names(directory) if len(name) == NAME_DIGITS]
        if not names:
            return
        with opened(self._disk, f"{directory}/{names[0]}", write=False) as fd:
            queue.file_size = self._disk.size(fd) or FILE_SIZE_DEFAULT
        queue.first_entry = int(names[0]) // BATCH_ENTRY_SIZE
        stop = (int(names[-1]) + queue.file_size) // BATCH_ENTRY_SIZE
        queue.end_entry = self._border(queue, queue.first_entry, stop, lambda e: e.is_written)
        living = self._first_living(queue, log_start)
        if queue.end_entry > queue.first_entry:
            last = self._entry(queue, queue.end_entry - 1)
            queue.begin_at(last.first_offset + last.message_count)
            queue.physical_offset = last.physical_offset
        else:
            queue.begin_at(0)
            queue.physical_offset = -1
        if living < queue.end_entry:
            queue.min_offset = self._entry(queue, living).first_offset

    def _border(
        self, queue: BatchQueue, start: int, stop: int, is_before: Callable[[BatchEntry], bool]
    ) -> int:
        """Return the number of the first entry for which `is_before` is false, else `stop`; entries are in order."""
        numbers = range(start, stop)
        return start + bisect_right(
            numbers, 0, key=lambda number: int(not is_before(self._entry(queue, number)))
        )

    def _append(self, queue: BatchQueue, entries: list[BatchEntry]) -> None:
        self._disk.make_directory(self._directory(queue))
        while entries:
            path, at = self._place(queue, queue.end_entry)
            room = (queue.file_size - at) // BATCH_ENTRY_SIZE
            part, entries = entries[:room], entries[room:]
            with opened(self._disk, path, create=True) as fd:
                if self._disk.size(fd) == 0:
                    self._disk.resize(fd, queue.file_size)
                write_whole(self._disk, fd, b"".join(map(encode_batch_entry, part)), at)
                self._disk.fdatasync(fd)
            queue.end_entry += len(part)
        self._disk.sync_directory(self._directory(queue))

    # --- cleaning

    def delete_before(self, offset: int) -> Iterator[Step]:
        """Yield steps that hide entries pointing before an offset of the log, and delete files with only such entries.

        Each queue's newest file is kept. For the steps see `cometmq.store.derived`.
        A concurrent reader that finds no entry, because its file is gone, continues with later entries.
        """
        firsts: list[tuple[BatchQueue, int, int]] = []
        yield partial(self._find_firsts, offset, firsts)
        if not firsts:
            return
        for queue, _, least in firsts:
            queue.hide_before(least)
        removed: list[BatchQueue] = []
        yield partial(self._remove_files, firsts, removed)
        for queue in removed:
            queue.first_entry += queue.file_size // BATCH_ENTRY_SIZE

    def _find_firsts(self, log_start: int, firsts: list[tuple[BatchQueue, int, int]]) -> None:
        """Collect for each queue (queue, number and offset of the first entry whose record exists, or of its end)."""
        for queue in self:
            first, least = self._first_living(queue, log_start), queue.max_offset
            if first < queue.end_entry:
                least = self._entry(queue, first).first_offset
            firsts.append((queue, first, least))

    def _remove_files(
        self, firsts: list[tuple[BatchQueue, int, int]], removed: list[BatchQueue]
    ) -> None:
        for queue, first, _ in firsts:
            for path in self._paths_before(queue, first):
                self._disk.unlink(path)
                removed.append(queue)
                self._disk.sync_directory(self._directory(queue))

    def files_before(self, offset: int) -> list[str]:
        """Return the paths of the files that `delete_before` would delete."""
        return [
            path
            for queue in self
            for path in self._paths_before(queue, self._first_living(queue, offset))
        ]

    def _first_living(self, queue: BatchQueue, log_start: int) -> int:
        return self._border(
            queue,
            queue.first_entry,
            queue.end_entry,
            lambda entry: entry.physical_offset < log_start,
        )

    def _paths_before(self, queue: BatchQueue, first: int) -> list[str]:
        """Return the files with only entries before `first`, never the newest, which records the queue's end."""
        last = min(first, queue.end_entry - 1)
        if last < 0:
            return []
        wanted, _ = self._place(queue, last)
        directory = self._directory(queue)
        names = [name for name in self._disk.list_names(directory) if len(name) == NAME_DIGITS]
        return [f"{directory}/{name}" for name in names if f"{directory}/{name}" < wanted]

    # --- reading

    def read(
        self,
        queue: BatchQueue,
        offset: int,
        *,
        max_count: int,
        max_bytes: int,
        match: Match | None,
    ) -> GetResult:
        """Return the records that match and have messages from an offset on; blocks.

        The last record may exceed `max_count`, the first one `max_bytes`. The first may begin earlier, as in RocketMQ
        5.3.3 (DefaultMessageStore.getMessage); clients skip its messages before that offset.
        """
        number = self._number_at(queue, offset)
        records: list[memoryview] = []
        count = size = 0
        next_offset = offset
        while number < queue.end_entry and count < max_count:
            entry = self._entry(queue, number)
            if records and size + entry.size > max_bytes:
                break
            number += 1
            if not entry.is_written:
                continue  # Its file was deleted, or it was truncated, during this read.
            next_offset = entry.first_offset + entry.message_count
            if match is not None and not _is_match(match, entry.tags_code):
                continue
            content = self._log.read(entry.physical_offset, entry.size)
            if content is not None:
                records.append(memoryview(content))
                count += entry.message_count
                size += entry.size
        status = GetStatus.FOUND if records else GetStatus.NO_MATCHED_MESSAGE
        return GetResult(
            status,
            next_offset,
            queue.min_offset,
            queue.max_offset,
            records,
            len(records),
            size,
        )

    def store_time_at(self, queue: BatchQueue, offset: int) -> int:
        """Return the store time of a message in ms, -1 if there is none, 0 if its queue file is gone; may block."""
        if not queue.min_offset <= offset < queue.max_offset:
            return -1
        return self._entry(queue, self._number_at(queue, offset)).store_timestamp

    def living_entries(self, queue: BatchQueue) -> list[BatchEntry]:
        """Return the entries of a queue from its minimum offset on, unchecked against the log."""
        numbers = range(queue.first_entry, queue.end_entry)
        entries = [self._entry(queue, number) for number in numbers]
        return [entry for entry in entries if entry.first_offset >= queue.min_offset]

    def _number_at(self, queue: BatchQueue, offset: int) -> int:
        """Return the number of the last entry that begins at or before a queue offset; the first entry if none does."""
        behind = self._border(
            queue,
            queue.first_entry,
            queue.end_entry,
            lambda entry: entry.first_offset <= offset,
        )
        return max(behind - 1, queue.first_entry)

    def _entry(self, queue: BatchQueue, number: int) -> BatchEntry:
        """Return an entry by its number; an unwritten entry if its file is missing."""
        path, at = self._place(queue, number)
        try:
            with opened(self._disk, path, write=False) as fd:
                content = self._disk.pread(fd, BATCH_ENTRY_SIZE, at)
        except FileNotFoundError:
            return _NO_ENTRY
        return decode_batch_entry(content.ljust(BATCH_ENTRY_SIZE, b"\0"))

    def _place(self, queue: BatchQueue, number: int) -> tuple[str, int]:
        at = number * BATCH_ENTRY_SIZE
        start = at // queue.file_size * queue.file_size
        return f"{self._directory(queue)}/{start:020d}", at - start

    def _directory(self, queue: BatchQueue) -> str:
        return f"{self._root}/{queue.topic}/{queue.queue_id}"


def entry_of(record: Record) -> BatchEntry | None:
    """Return the batch entry of a record; None if its numbers are missing (setBatchSizeIfNeeded) or impossible."""
    block = record.property_block
    try:
        first = find_property(block, INNER_BASE.encode())
        count = find_property(block, INNER_NUM.encode())
        if first is None or count is None:
            return None
        numbers = int(first), int(count)
    except (CodecError, ValueError):
        return None
    entry = BatchEntry(
        record.physical_offset,
        record.store_size,
        tags_code(record, ()),
        record.store_timestamp,
        *numbers,
    )
    return entry if entry.is_written else None


def _is_match(match: Match, code: int) -> bool:
    return match(code) if callable(match) else code in match
