"""Reads messages: from a queue offset to the bytes of records, as a pull answer carries them.

Queue entries come from memory (unwritten or cached ones) or the queue's file. Records come from the log: a read-only
map for recent ones written by this process, else a `pread` that does not block. If a read would have to block, the
result is "cold" and carries a function that does the blocking read, for the caller to run in a reader thread.

The reader checks that the records are as many as the queue entries promised. If not, it treats the entries as damaged
and has them repaired (cometmq.store.queue_mending).

The order of checks, the limits and the next offsets follow DefaultMessageStore.getMessage of RocketMQ 5.3.3.
"""

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from struct import Struct
from typing import NamedTuple

from cometmq.codec.queue_entry import BLANK_SIZE, GAP_CODE, QUEUE_ENTRY, QUEUE_ENTRY_SIZE
from cometmq.kernel import (
    PropertyFilter,
    TagCodes,
    choose_entries,
    count_records,
    gather,
    plain_read,
    pull_answer,
)
from cometmq.kernel.rows import AnswerTerms, PlacedEntries, PulledAnswer, Run
from cometmq.store.commitlog import CommitLog
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.disk import Buffer
from cometmq.store.log_file import LogFile
from cometmq.store.queue_files import QueueFiles
from cometmq.store.queue_mending import QueueMending
from cometmq.store.settings import StoreSettings

# Pieces of the log with at most this gap between them, in bytes, are read at once, up to this size in total.
_SPAN_GAP = 4096
_SPAN_SIZE = 128 << 10
# If a queue entry claims a record longer than this, the record is checked before so much is read.
_BELIEVED_SIZE_MAX = 16 << 20
_PLACE = Struct(">q")  # A physical offset, with which an entry begins.
_READ_AHEAD_SIZE = 1 << 20  # Read-ahead of a cold reader: 16 answers of 64 KiB.

Match = frozenset[int] | Callable[[int], bool]


class GetStatus(StrEnum):
    """Status of a read: FOUND, OFFSET_TOO_SMALL and others of GetMessageStatus; its name is the remark of a pull's answer."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


# Reading an attribute of an enumeration takes ten times as long as one of another object.
_FOUND, _NO_MATCHED = GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE
_new_tuple = tuple.__new__


class GetResult(NamedTuple):
    """The result of reading a queue; provisional if `cold` is set.

    Attributes:
        status: Outcome of the read.
        next_offset: Queue offset to continue from.
        min_offset: Minimum offset of the queue during the read; 0 without a queue.
        max_offset: Maximum offset of the queue during the read; 0 without a queue.
        records: Pieces of the log with one or more whole records each; together they are the answer's body.
        message_count: Number of records in them.
        size: Size of the records in bytes.
        suggest_slave: Whether the reader is so far behind the log's end that a slave should serve it, if allowed.
        cold: If not None, the read is unfinished: call it in a thread that may block to get the result.
    """

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    records: list[memoryview] = []  # noqa: RUF012  # never changed
    message_count: int = 0
    size: int = 0
    suggest_slave: bool = False
    cold: "Callable[[], GetResult] | None" = None


class WantedRead(NamedTuple):
    """The parameters of a read whose offset is within the queue.

    Attributes:
        queue: Queue to read.
        offset: First queue offset.
        entry_count: Maximum number of queue entries to examine.
        min_offset: Minimum offset of the queue when the read began.
        max_offset: Maximum offset of the queue when the read began.
        count_max: Maximum number of records.
        size_max: Maximum number of bytes; the first record may exceed it.
        match: Returns whether a tags code is wanted; None if all are.
    """

    queue: ConsumeQueue
    offset: int
    entry_count: int
    min_offset: int
    max_offset: int
    count_max: int
    size_max: int
    match: Callable[[int], bool] | None


class ChosenEntries(NamedTuple):
    """The queue entries that a read has selected.

    Attributes:
        runs: (start, end) physical offsets of the pieces of the log to read.
        message_count: Number of records in them.
        size: Size of the records in bytes.
        looked: Number of entries examined.
        removed: Whether an examined entry has no message in the log: deleted, or a gap.
    """

    runs: list[Run]
    message_count: int
    size: int
    looked: int
    removed: bool


class Reader:
    """Reads the messages of queues other than batch queues."""

    def __init__(
        self, log: CommitLog, files: QueueFiles, settings: StoreSettings, mending: QueueMending
    ) -> None:
        self._log = log
        self._files = files
        self._mending = mending
        self.change_limits(settings)
        self._in_memory_bytes = settings.in_memory_bytes
        self._warm_size = settings.warm_tail_bytes
        self._scan_entries = settings.filter_scan_bytes // QUEUE_ENTRY_SIZE

    def change_limits(self, settings: StoreSettings) -> None:
        """Apply the limits of these settings to later reads: those for recent messages and those for old ones."""
        self._limits = (
            (settings.transfer_count_in_memory, settings.transfer_bytes_in_memory),
            (settings.transfer_count_on_disk, settings.transfer_bytes_on_disk),
        )

    def get(
        self,
        queue: ConsumeQueue | None,
        offset: int,
        *,
        max_count: int,
        max_bytes: int,
        match: Match | None,
        may_block: Callable[[int], bool] | None = None,
    ) -> GetResult:
        """Read messages of a queue, starting at an offset; the result may be unfinished (`GetResult.cold`).

        The limits set by `change_limits` apply as well.

        Args:
            queue: The queue; None if it does not exist.
            offset: Queue offset of the first message.
            max_count: Maximum number of messages.
            max_bytes: Maximum number of bytes; the first message is returned whatever its size.
            match: The wanted tags codes, or a function that returns whether a code is wanted; None for all.
            may_block: Returns for which tags codes `match` may block; None: for none. If there are such codes among the
                entries, the result is unfinished.
        """
        if queue is None:
            return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        low, high = queue.min_offset, queue.max_offset
        if not low <= offset < high:
            return _outside(offset, low, high)
        matches, count = self._looked_at(match, max_count)
        try:
            entries = self._entries(queue, offset, count)
        except FileNotFoundError:
            return self._hole(offset, low, high)
        must_wait = entries is None or (may_block is not None and _any_code(entries, may_block))
        if entries is not None and not must_wait:
            found = self._plain(entries, queue, offset, max_count, max_bytes, matches)
            if found is not None:
                return found
        end = high if offset >= queue.tail_start else queue.tail_start
        count = min(count, end - offset)
        wanted = WantedRead(queue, offset, count, low, high, max_count, max_bytes, matches)
        if entries is None:
            return self._cold(wanted)
        content, start, stop = entries
        chosen = bytes(content[start:stop])
        if must_wait:
            return self._cold(wanted, chosen)
        return self._answer(wanted, chosen, may_wait=False)

    def get_filtered(
        self,
        queue: ConsumeQueue,
        offset: int,
        *,
        max_count: int,
        max_bytes: int,
        wanted: PropertyFilter,
    ) -> GetResult | None:
        """Read the messages of a queue, no batch queue, that pass a filter; maybe none of those that one read examines.

        The arguments are as for `get`, but only these limits apply. Returns None if the messages must be read and tested
        one by one, see `plain_read`.
        """
        left = min(queue.max_offset - offset, self._scan_entries)
        if not queue.min_offset <= offset < queue.max_offset:
            return None
        try:
            entries = self._entries(queue, offset, left)
        except FileNotFoundError:
            return None
        if entries is None or entries[2] - entries[1] < left * QUEUE_ENTRY_SIZE:
            return None  # At the end of a queue file.
        return self._plain(entries, queue, offset, max_count, max_bytes, wanted)

    def pull(
        self, terms: AnswerTerms, queue: ConsumeQueue, offset: int, opaque: int
    ) -> PulledAnswer | None:
        """Return the finished pull answer for a queue that is not a batch queue, or None if `get` must produce it.

        The answer is (frame, size of its messages, their number, size of all that was checked), sizes in bytes.
        """
        count, log = terms[1], self._log
        if terms[3] is not None and count < self._scan_entries:
            count = self._scan_entries
        files, written, near = log.chain.files, log.positions.written, self._in_memory_bytes
        reach = files, written, log.warm_start, self._warm_size, near, self._limits
        kept = self._files.kept.get(queue)
        answer = pull_answer(terms, queue, offset, opaque, kept, count, reach)
        if answer is not None or not queue.min_offset <= offset < queue.max_offset:
            return answer
        try:
            entries = self._entries(queue, offset, count)
        except FileNotFoundError:
            return None
        if entries is None:
            return None
        content, start, stop = entries
        was_at_hand = content is queue.tail or (kept is not None and content is kept[2])
        count = (stop - start) // QUEUE_ENTRY_SIZE
        kept = offset - start // QUEUE_ENTRY_SIZE, offset + count, content
        if not was_at_hand:
            answer = pull_answer(terms, queue, offset, opaque, kept, count, reach)
        if answer is None and self._map(entries):
            answer = pull_answer(terms, queue, offset, opaque, kept, count, reach)
        return answer

    def _looked_at(
        self, match: Match | None, count_max: int
    ) -> tuple[Callable[[int], bool] | None, int]:
        """Return the function that matches tags codes, or None, and the maximum number of queue entries to examine."""
        if match is None:
            return None, count_max
        matches = match if callable(match) else TagCodes(match)
        return matches, max(self._scan_entries, count_max)

    def _entries(self, queue: ConsumeQueue, offset: int, count: int) -> PlacedEntries | None:
        """Return up to `count` queue entries from an offset on, None if reading may block; may raise FileNotFoundError."""
        before_tail = queue.tail_start - offset
        if before_tail <= 0:
            start, tail = -before_tail * QUEUE_ENTRY_SIZE, queue.tail
            return tail, start, min(start + count * QUEUE_ENTRY_SIZE, len(tail))
        if before_tail >= count:
            return self._files.read_nowait(queue, offset, count)
        entries = self._files.read_nowait(queue, offset, before_tail)
        if entries is None or entries[2] - entries[1] < before_tail * QUEUE_ENTRY_SIZE:
            return entries
        # Parts of the queue in its file and in memory are one queue to readers.
        content, start, stop = entries
        joined = bytes(content[start:stop])
        joined += queue.tail_entries(queue.tail_start, count - before_tail)
        return joined, 0, len(joined)

    def _plain(
        self,
        entries: PlacedEntries,
        queue: ConsumeQueue,
        offset: int,
        count_max: int,
        size_max: int,
        match: Callable[[int], bool] | PropertyFilter | None,
    ) -> GetResult | None:
        """Return the wanted messages if all are in one recent log file and match their entries; None otherwise, or at a gap."""
        first, file = self._warm_file(entries)
        if file is None:
            return None
        try:
            view = file.mapped or file.view
        except OSError:  # Falls back to `pread`, see _records.
            return None
        written, log_start = self._log.positions.written, self._log.chain.files[0].start
        if type(match) is not PropertyFilter:
            count_limit, size_limit = self._limits[written - first > self._in_memory_bytes]
            # A call of `min` costs what ten comparisons do.
            if count_max > count_limit:  # noqa: PLR1730
                count_max = count_limit
            if size_max > size_limit:  # noqa: PLR1730
                size_max = size_limit
        read = plain_read(entries, count_max, size_max, log_start, match, view, file.start)
        if read is None:
            return None
        records, count, looked, end = read
        # Takes half the time of `GetResult(...)`.
        return _new_tuple(GetResult, (
            _FOUND if count else _NO_MATCHED, offset + looked, queue.min_offset, queue.max_offset,
            [memoryview(records)] if count else [], count, len(records),
            end >= 0 and written - end > self._in_memory_bytes, None,
        ))  # fmt: skip

    def _warm_file(self, entries: PlacedEntries) -> tuple[int, LogFile | None]:
        """Return the physical offset in the first entry, and its log file, or None if that is missing or not recent."""
        content, start, stop = entries
        if start >= stop:
            return 0, None
        first: int = _PLACE.unpack_from(content, start)[0]
        log = self._log
        files, written = log.chain.files, log.positions.written
        # Same as `is_warm` and `find`, inlined because each pop comes through here.
        if not files or first < log.warm_start or first < written - self._warm_size:
            return first, None
        number = (first - files[0].start) // log.chain.file_size
        return first, files[number] if 0 <= number < len(files) else None

    def _map(self, entries: PlacedEntries) -> bool:
        """Map the log file of the first entry; return False if it is mapped already, missing or not recent, or that fails."""
        _, file = self._warm_file(entries)
        try:
            return file is not None and file.mapped is None and bool(file.view)
        except OSError:  # Falls back to `pread`, see _records.
            return False

    def _cold(self, wanted: WantedRead, entries: Buffer | None = None) -> GetResult:
        """Return a result that a reader thread must finish; `entries` are passed along, as they may be in no file yet."""
        return GetResult(
            GetStatus.NO_MATCHED_MESSAGE,
            wanted.offset,
            wanted.min_offset,
            wanted.max_offset,
            cold=partial(self._get_waiting, wanted, entries),
        )

    def _get_waiting(self, wanted: WantedRead, entries: Buffer | None) -> GetResult:
        if entries is None:
            try:
                entries = self._files.read(wanted.queue, wanted.offset, wanted.entry_count)
            except FileNotFoundError:
                return self._hole(wanted.offset, wanted.min_offset, wanted.max_offset)
        return self._answer(wanted, entries, may_wait=True)

    def _hole(self, offset: int, low: int, high: int) -> GetResult:
        """Return the result for a missing queue file: continue in the next file or at the queue's end, as RocketMQ does."""
        per_file = self._files.entries_per_file
        end = min((offset // per_file + 1) * per_file, high)
        return GetResult(GetStatus.OFFSET_FOUND_NULL, end, low, high)

    def _mended(self, wanted: WantedRead, entries: Buffer) -> GetResult:
        """Repair entries that do not point to the queue's records, then read the messages; may block."""
        mended = self._mending.entries(wanted.queue, wanted.offset, entries)
        if not mended:  # The queue was truncated meanwhile.
            low, high = wanted.queue.min_offset, wanted.queue.max_offset
            if low <= wanted.offset < high:
                return GetResult(GetStatus.NO_MATCHED_MESSAGE, wanted.offset, low, high)
            return _outside(wanted.offset, low, high)
        return self._answer(wanted, mended, may_wait=True, are_mended=True)

    def _answer(
        self, wanted: WantedRead, entries: Buffer, *, may_wait: bool, are_mended: bool = False
    ) -> GetResult:
        chosen = self._choose(wanted, entries)
        is_sound = are_mended or self._is_likely(wanted, entries, chosen)
        records: list[memoryview] = []
        if chosen.message_count and is_sound:
            try:
                found = self._records(chosen.runs, may_wait=may_wait)
            except _FileGoneError:
                return self._answer(wanted, entries, may_wait=may_wait, are_mended=are_mended)
            except _StrayEntryError:
                found = []
            if found is None:
                return self._cold(wanted, entries)
            records = found
            is_sound = are_mended or sum(map(count_records, found)) == chosen.message_count
        if not is_sound:
            return self._mended(wanted, entries) if may_wait else self._cold(wanted)
        status = GetStatus.NO_MATCHED_MESSAGE
        if records:
            status = GetStatus.FOUND
        elif chosen.removed:
            status = GetStatus.MESSAGE_WAS_REMOVING
        behind = self._log.positions.written - chosen.runs[-1][1] if chosen.runs else 0
        return GetResult(
            status,
            wanted.offset + chosen.looked,
            wanted.min_offset,
            wanted.max_offset,
            records,
            chosen.message_count,
            chosen.size,
            behind > self._in_memory_bytes,
        )

    def _is_likely(self, wanted: WantedRead, entries: Buffer, chosen: ChosenEntries) -> bool:
        """Return whether entries seem sound: some, none deleted after an existing one, messages of 16 MiB at most."""
        if not chosen.looked or chosen.size > _BELIEVED_SIZE_MAX:
            return False
        if not chosen.removed:
            return True
        # Only the first messages of a queue can have been deleted. An entry that points before the log's start, but
        # comes after the entry of an existing message, is damaged.
        start, is_first = self._log.chain.start, True
        used = entries[: chosen.looked * QUEUE_ENTRY_SIZE]
        for place, size, code in QUEUE_ENTRY.iter_unpack(used):
            if place >= start:
                is_first = False
            elif size != BLANK_SIZE and code != GAP_CODE and (place < 0 or not is_first):
                return False
        return True

    def _choose(self, wanted: WantedRead, entries: Buffer) -> ChosenEntries:
        """Select entries until a limit is reached, joining records that are adjacent in the log."""
        _, _, _, _, _, count_max, size_max, match = wanted
        if entries:
            first_offset, _, _ = QUEUE_ENTRY.unpack_from(entries)
            age = self._log.positions.written - first_offset
            count_limit, size_limit = self._limits[age > self._in_memory_bytes]
            count_max, size_max = min(count_max, count_limit), min(size_max, size_limit)
        return ChosenEntries(
            *choose_entries(entries, count_max, size_max, self._log.chain.start, match)
        )

    def read_pieces(self, runs: list[Run]) -> list[memoryview] | None:
        """Return the bytes of pieces of the log, near ones read with one call; None if not each is within one file.

        May block, in any thread.
        """
        try:
            return self._read_records(runs, may_wait=True)
        except (_FileGoneError, _StrayEntryError):
            return None

    def _records(self, runs: list[Run], *, may_wait: bool) -> list[memoryview] | None:
        if runs[0][0] < self._log.warm_from:
            return self._read_records(runs, may_wait=may_wait)
        try:
            return self._mapped_records(runs)
        except OSError:  # If a file system became read-only, maps fail but reads still work.
            return self._read_records(runs, may_wait=may_wait)

    def _mapped_records(self, runs: list[Run]) -> list[memoryview]:
        """Return the bytes of pieces of the log through its maps; raise OSError if a file cannot be mapped."""
        file = self._file_of(runs[0][0])
        if runs[-1][1] <= file.end:
            return [memoryview(gather(file.view, file.start, runs))]
        records = []
        for start, end in runs:
            if start >= file.end:
                file = self._file_of(start)
            records.append(file.view[start - file.start : end - file.start])
        return records

    def _read_records(self, runs: list[Run], *, may_wait: bool) -> list[memoryview] | None:
        """Read records with `pread`, nearby ones in one call; None if that may block and `may_wait` is False."""
        records: list[memoryview] = []
        for file, start, span in self._spans(runs):
            size = span[-1][1] - start
            read = file.read if may_wait else file.read_nowait
            piece: Buffer | None = read(start, size)
            if piece is None:
                return None
            view = memoryview(piece)
            records.extend([view[begin - start : end - start] for begin, end in span])
            if may_wait:
                file.will_need(start + size, _READ_AHEAD_SIZE)
        return records

    def _spans(self, runs: list[Run]) -> list[tuple[LogFile, int, list[Run]]]:
        """Group pieces of the log that are read with one call; return (file, physical offset, pieces) of each group.

        A piece that is not behind the one before, as damaged queue entries can name, begins a group.
        """
        spans: list[tuple[LogFile, int, list[Run]]] = []
        span: list[Run] = []
        start = file_end = -1
        for run in runs:
            is_near = (
                span
                and run[1] <= file_end
                and 0 <= run[0] - span[-1][1] <= _SPAN_GAP
                and run[1] - start <= _SPAN_SIZE
            )
            if not is_near:
                file = self._file_of(run[0])
                span, start, file_end = [], run[0], file.end
                if run[1] > file_end:
                    raise _StrayEntryError
                spans.append((file, start, span))
            span.append(run)
        return spans

    def _file_of(self, offset: int) -> LogFile:
        file = self._log.chain.find(offset)
        if file is None:
            if offset < self._log.chain.start:
                raise _FileGoneError
            raise _StrayEntryError
        return file


class _FileGoneError(Exception):
    """A log file was deleted after entries in it had been selected; selecting again skips them."""


class _StrayEntryError(Exception):
    """A queue entry points to a place where no record can be."""


def _any_code(entries: PlacedEntries, is_meant: Callable[[int], bool]) -> bool:
    content, start, stop = entries
    return any(is_meant(code) for _, _, code in QUEUE_ENTRY.iter_unpack(content[start:stop]))


def _outside(offset: int, low: int, high: int) -> GetResult:
    """Return the result for an offset at which the queue has no message."""
    if high == 0:
        return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, low, high)
    if offset < low:
        return GetResult(GetStatus.OFFSET_TOO_SMALL, low, low, high)
    if offset == high:
        return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, offset, low, high)
    return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, high, low, high)
