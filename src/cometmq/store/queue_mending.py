"""Repairs queue entries that do not point to their records, using the log, when a read finds them.

A flipped bit or a lost sector in a queue file hides messages that the log still has. A read that fails on such
entries calls this module, in its reader thread. It walks the log between the last good entry before them and the
first good one after them (at most 1 GiB), and replaces the bad entries by those of the queue's records found there, in
the answer and, if possible, in the file. Entries without a record become blank ones, which our readers skip.
"""

import logging
from collections.abc import Iterator
from threading import Lock
from typing import NamedTuple

from cometmq.codec.queue_entry import (
    BLANK_SIZE,
    GAP_CODE,
    QUEUE_ENTRY,
    QUEUE_ENTRY_SIZE,
    QueueEntry,
    encode_entry,
)
from cometmq.codec.record import PHYSICAL_OFFSET_AT, QUEUE_OFFSET_AT
from cometmq.kernel import MAGIC_V1, MAGIC_V2, RECORD_SIZE_MIN, WalkEnd
from cometmq.model.text import plural
from cometmq.store.commitlog import CommitLog
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.disk import Buffer
from cometmq.store.queue_files import QueueFiles
from cometmq.store.settings import StoreSettings
from cometmq.store.stored_record import places_of
from cometmq.store.whole_records import walk_of

logger = logging.getLogger(__name__)

# Entries of one read: as many as a filter examines (maxFilterMessageSize of RocketMQ).
LOOKED_MAX = 800
# Bytes of the log per run of bad entries: a log file of the default size.
WALKED_MAX = 1 << 30
# Per process, for entries that could not be written; a written one is logged once anyway.
LINES_MAX = 200
_CHUNK_SIZE = 1 << 20
_STEP = 4096  # Entries per read while searching the next good one.


class BadRun(NamedTuple):
    """Consecutive entries of a queue, from a bad one (not pointing to its record) to the next good one or the file's end.

    Attributes:
        start: Queue offset of the first entry.
        stop: Queue offset after the last entry.
        low: Physical offset of the end of the last good record before them, or the log's start.
        high: Physical offset of the record of that good entry, or the log's end if there is none.
        high_size: Size of that record in bytes; 0 if there is none.
    """

    start: int
    stop: int
    low: int
    high: int
    high_size: int


class QueueMending:
    """Repairs the queue entries of a store that do not point to their records."""

    def __init__(
        self, log: CommitLog, files: QueueFiles, settings: StoreSettings, *, read_only: bool
    ) -> None:
        self._log = log
        self._files = files
        self._levels_ms = settings.delay_levels_ms
        self._walk = walk_of(settings)
        self._read_only = read_only
        self._lines = 0
        self._cuts = 0
        # Held while entries are written, so that a read that began before a truncation writes nothing after it.
        self._writing = Lock()

    def entries(self, queue: ConsumeQueue, offset: int, entries: Buffer) -> bytes:
        """Return the first entries of a read, with bad ones repaired, if possible in the file, too (not if read-only).

        May block on the device, and raise OSError; any thread.

        Args:
            queue: Queue of the entries.
            offset: Queue offset of the first entry.
            entries: Encoded entries that the read found; may be empty.

        Returns:
            Encoded entries: at least one, at most 800; none if the queue was truncated before them.
        """
        cuts = self._cuts
        mended = bytearray(entries[: LOOKED_MAX * QUEUE_ENTRY_SIZE]) or bytearray(
            QUEUE_ENTRY_SIZE
        )
        end = offset + len(mended) // QUEUE_ENTRY_SIZE
        at = offset
        # The queue may be truncated at any moment; entries after its end do not count.
        while at < min(end, queue.max_offset):
            if self._is_good(queue, at, _entry(mended, at - offset)):
                at += 1
                continue
            run = self._run(queue, at)
            fresh = self._built_again(queue, run, cuts)
            first = (at - offset) * QUEUE_ENTRY_SIZE
            mended[first : first + len(fresh)] = fresh[: len(mended) - first]
            at = max(run.stop, at + 1)
        count = max(min(at, queue.max_offset) - offset, 0)
        return bytes(mended[: count * QUEUE_ENTRY_SIZE])

    def entry(self, queue: ConsumeQueue, offset: int) -> QueueEntry | None:
        """Return one entry, repaired if it was bad; None for a gap or a missing entry. Blocks and writes as `entries` does."""
        content = queue.tail_entry(offset) or self._read(queue, offset, 1)
        if not content:
            return None
        mended = self.entries(queue, offset, content)
        if not mended:
            return None
        entry = QueueEntry._make(QUEUE_ENTRY.unpack(mended))
        return None if entry.size == BLANK_SIZE or entry.tags_code == GAP_CODE else entry

    def truncated(self) -> None:
        """Prevent reads that began before a truncation from writing repairs."""
        with self._writing:
            self._cuts += 1

    # --- good and bad

    def _is_good(self, queue: ConsumeQueue, offset: int, entry: QueueEntry) -> bool:
        """Return whether an entry points to its message, plausibly to a deleted one, or is a gap that readers skip."""
        place, size, code = entry
        if size == BLANK_SIZE or code == GAP_CODE:
            return True
        if 0 <= place < self._log.chain.start and size > 0:
            # A deleted message, if the one before is deleted as well: the log loses its oldest messages first.
            before = self._read(queue, offset - 1, 1) if offset > queue.min_offset else b""
            return not before or not self._leads(queue, offset - 1, _entry(before, 0))
        return self._leads(queue, offset, entry)

    def _leads(self, queue: ConsumeQueue, offset: int, entry: QueueEntry) -> bool:
        """Return whether an entry points to an existing record of its size that is at this offset of the queue.

        The record may belong to another queue if it also names this one (a light queue).
        """
        place, size, _ = entry
        if size < RECORD_SIZE_MIN:
            return False
        head = self._log.read(place, PHYSICAL_OFFSET_AT + 8)
        if head is None or int.from_bytes(head[4:8]) not in (MAGIC_V1, MAGIC_V2):
            return False
        if (int.from_bytes(head[:4]), int.from_bytes(head[PHYSICAL_OFFSET_AT:])) != (
            size,
            place,
        ):
            return False
        if int.from_bytes(head[QUEUE_OFFSET_AT : QUEUE_OFFSET_AT + 8], signed=True) == offset:
            return True
        # A light queue (LMQ) has entries of messages of other queues.
        wanted = (queue.topic, queue.queue_id, offset)
        return any(wanted == found[:3] for found in self._places(place, place + size))

    def _run(self, queue: ConsumeQueue, start: int) -> BadRun:
        """Find the bad entries from a queue offset on, in one file, and the records of the good entries around them."""
        low = self._end_before(queue, start)
        per_file = self._files.entries_per_file
        end = min((start // per_file + 1) * per_file, queue.max_offset)
        at = start + 1
        while at < end:
            content = queue.tail_entry(at) or self._read(
                queue, at, min(_STEP, queue.tail_start - at, end - at)
            )
            if not content:
                break
            for place, size, code in QUEUE_ENTRY.iter_unpack(content):
                if code != GAP_CODE and self._leads(queue, at, QueueEntry(place, size, code)):
                    return BadRun(start, at, low, place, size)
                at += 1
        return BadRun(start, end, low, self._log.positions.committed, 0)

    def _end_before(self, queue: ConsumeQueue, offset: int) -> int:
        """Return the physical end of the record of the last good entry before a queue offset, or the log's start."""
        log_start = self._log.chain.start
        first = max(queue.min_offset, offset - _STEP)
        while first < offset:
            # If a file begins between them, only the entries in that file are read.
            first = max(first, (offset - 1) // self._files.entries_per_file
                        * self._files.entries_per_file)  # fmt: skip
            entries = [*QUEUE_ENTRY.iter_unpack(self._read(queue, first, offset - first))]
            for number in range(len(entries) - 1, -1, -1):
                entry = QueueEntry._make(entries[number])
                if entry.tags_code != GAP_CODE and self._leads(queue, first + number, entry):
                    return max(entry.physical_offset + entry.size, log_start)
            offset, first = first, max(queue.min_offset, first - _STEP)
        return log_start

    def _read(self, queue: ConsumeQueue, offset: int, count: int) -> bytes:
        """Return entries of one file; fewer or none if the file has no more or is gone."""
        try:
            content = self._files.read(queue, offset, count)
        except FileNotFoundError:
            return b""
        return content[: len(content) // QUEUE_ENTRY_SIZE * QUEUE_ENTRY_SIZE]

    # --- building again

    def _built_again(self, queue: ConsumeQueue, run: BadRun, cuts: int) -> bytes:
        """Rebuild bad entries from the log, try to write them to their file, and return the new entries."""
        found: dict[int, bytes] = {}
        for topic, queue_id, offset, code, place, size in self._places_between(run):
            if (topic, queue_id) == (queue.topic, queue.queue_id) and offset < run.stop:
                found[offset] = encode_entry(place, size, code)
        # A blank entry that keeps its position in the order of the log: see `place_of_entry`.
        gap = encode_entry(0, BLANK_SIZE, run.high)
        fresh = b"".join(found.get(offset, gap) for offset in range(run.start, run.stop))
        lost = sum(offset not in found for offset in range(run.start, run.stop))
        with self._writing:
            is_written = cuts == self._cuts and self._write(queue, run.start, fresh)
        self._say(queue, run, lost, is_written=is_written)
        return fresh

    def _places_between(self, run: BadRun) -> "Iterator[EntryPlace]":
        stop = min(run.high, run.low + WALKED_MAX)
        return (place for place in self._places(run.low, stop) if place.offset >= run.start)

    def _places(self, start: int, stop: int) -> "Iterator[EntryPlace]":
        """Yield the queue entries for the records in a range of the log, up to the first invalid one."""
        position = start
        while position < stop:
            file = self._log.chain.find(position)
            if file is None:
                return
            limit = min(stop, file.end)
            chunk = file.read(position, min(_CHUNK_SIZE, limit - position))
            records, walked, why = self._walk(chunk, position)
            if not walked and why is WalkEnd.SHORT:
                size = int.from_bytes(chunk[:4])
                if not len(chunk) < size <= limit - position:
                    return
                records, walked, why = self._walk(file.read(position, size), position)
            for record in records:
                for topic, queue_id, offset, code in places_of(record, self._levels_ms):
                    yield EntryPlace(
                        topic, queue_id, offset, code, record.physical_offset, record.store_size
                    )
            position = file.end if why is WalkEnd.BLANK else position + walked
            if not walked and why is not WalkEnd.BLANK:
                return

    def _write(self, queue: ConsumeQueue, start: int, entries: bytes) -> bool:
        """Write repaired entries to their file, except those that are still in the queue's tail in memory.

        Return False if all are, the store is read-only, the queue is deleted or the disk fails.
        """
        count = min(len(entries) // QUEUE_ENTRY_SIZE, queue.tail_start - start)
        if self._read_only or queue.deleted or count <= 0:
            return False
        try:
            self._files.rewrite(queue, start, entries[: count * QUEUE_ENTRY_SIZE])
        except OSError as error:
            logger.warning("%s: entries from %d on cannot be repaired: %s", queue, start, error)
            return False
        return True

    def _say(self, queue: ConsumeQueue, run: BadRun, lost: int, *, is_written: bool) -> None:
        if not is_written:
            self._lines += 1
            if self._lines > LINES_MAX:
                return
        where = self._files.path(queue, run.start)
        count = run.stop - run.start
        logger.warning(
            "%s: %d queue %s from offset %d pointed to no record (%s); rebuilt from the log: %d; offsets without a "
            "message, which readers skip: %d between %d and %d; `cometmq store verify` checks all queues",
            queue, count, plural(count, "entry", "entries"), run.start, where, count - lost, lost, run.low, run.high,
        )  # fmt: skip


class EntryPlace(NamedTuple):
    """A queue entry that a record requires.

    Attributes:
        code: Tags code.
        physical_offset: Physical offset of the record.
        size: Size of the record in bytes.
    """

    topic: str
    queue_id: int
    offset: int
    code: int
    physical_offset: int
    size: int


def _entry(entries: Buffer, number: int) -> QueueEntry:
    return QueueEntry._make(QUEUE_ENTRY.unpack_from(entries, number * QUEUE_ENTRY_SIZE))
