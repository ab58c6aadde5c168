"""A search in the index: the records that may have a key, newest first.

A search is prepared on the thread that owns the store and may run in any. The part that still changes (the newest entry
of the slot in a growing file) is read during preparation; older entries change only if the log is truncated. The rules
follow IndexService.queryOffset and IndexFile.selectPhyOffset of RocketMQ 5.3.3. An entry holds its time rounded down to
seconds and a hash that several keys may share, so results are only candidates and the caller compares the records.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from cometmq.codec.index_file import (
    INDEX_ENTRY_SIZE,
    INDEX_SLOT_SIZE,
    IndexEntry,
    IndexHeader,
    decode_entry,
    entry_position,
    slot_position,
)
from cometmq.store.disk import Disk, opened

# For a very frequent key, the chain is not followed step by step back to an old time: after this many steps in a row
# that are too late, the entry closest to the wanted time is searched among this many entries.
LATE_STEPS_MAX = 256
NEARER_ENTRIES = 4096
# Reads of the index without waiting; a search that needs more is for a thread.
AT_ONCE_READS = 256


class IndexView(NamedTuple):
    """An index file as a search sees it.

    Attributes:
        header: Header when the search was prepared.
        newest: Newest entry number of the wanted slot; None if it must be read from the file.
    """

    path: str
    header: IndexHeader
    newest: int | None


class IndexAnswer(NamedTuple):
    """The result of an index search.

    Attributes:
        offsets: Physical offsets of candidate records, newest first, without duplicates. A key of each has the wanted
            hash, and the store time may be in the wanted range. Looked up lazily, which may block or raise OSError.
        last_ms: Store time of the newest indexed record when the search was prepared, ms; 0 if there is none.
        last_offset: Physical offset of that record.
    """

    offsets: Iterator[int]
    last_ms: int
    last_offset: int


class IndexSearch:
    """A prepared search in the index for records with a key in a range of store times."""

    def __init__(
        self,
        disk: Disk,
        views: Sequence[IndexView],
        *,
        key_hash: int,
        slot_count: int,
        begin_ms: int,
        end_ms: int,
    ) -> None:
        self._disk = disk
        self._views = views  # Oldest first.
        self._key_hash = key_hash
        self._slot_count = slot_count
        self._begin_ms = begin_ms
        self._end_ms = end_ms
        self._pread = disk.pread

    def run(self, *, may_wait: bool = True) -> IndexAnswer:
        """Return the offsets of candidate records, which are looked up as the caller iterates over them.

        The result also has the store time and offset of the newest indexed record. With `may_wait` iterating may block,
        in any thread; otherwise it raises BlockingIOError instead, also after AT_ONCE_READS (256) reads.
        """
        self._pread = self._disk.pread if may_wait else _ReadsAtOnce(self._disk).pread
        if not self._views:
            return IndexAnswer(iter(()), 0, 0)
        newest = self._views[-1].header
        return IndexAnswer(self._offsets(), newest.end_timestamp, newest.end_offset)

    def _offsets(self) -> Iterator[int]:
        found: set[int] = set()  # A record may be listed twice, since Java indexes some again.
        for view in reversed(self._views):
            # A slot that is known to be empty, as of most keys that are not there, needs no look into the file.
            is_empty = view.newest is not None and view.newest <= 0
            if not is_empty and self._overlaps(view.header):
                # The file was deleted meanwhile, with its messages.
                with suppress(FileNotFoundError):
                    for offset in self._look(view):
                        if offset not in found:
                            found.add(offset)
                            yield offset
            if view.header.begin_timestamp < self._begin_ms:
                break

    def _overlaps(self, header: IndexHeader) -> bool:
        """Return whether a file may have messages of the wanted time (isTimeMatched)."""
        return header.begin_timestamp <= self._end_ms and header.end_timestamp >= self._begin_ms

    def _look(self, view: IndexView) -> Iterator[int]:
        with opened(self._disk, view.path, write=False) as fd:
            yield from self._matches(fd, view)

    def _matches(self, fd: int, view: IndexView) -> Iterator[int]:
        count, begin_file_ms = view.header.index_count, view.header.begin_timestamp
        number = self._newest(fd) if view.newest is None else view.newest
        late = 0
        while 0 < number < count:
            entry = self._entry(fd, number)
            time_ms = begin_file_ms + entry.seconds * 1000
            # The record was stored within the second that begins at time_ms.
            is_before = time_ms + 999 < self._begin_ms
            if entry.key_hash == self._key_hash and not is_before and time_ms <= self._end_ms:
                yield entry.physical_offset
            # Chains lead back in time; one that does not was broken by a power cut.
            if is_before or entry.previous >= number:
                return
            number = entry.previous
            late = late + 1 if time_ms > self._end_ms else 0
            if late == LATE_STEPS_MAX:
                late = 0
                number = self._nearer(fd, number, (self._end_ms - begin_file_ms) // 1000)

    def _nearer(self, fd: int, number: int, end_seconds: int) -> int:
        """Return the entry at which to continue along the slot's chain, skipping entries that are too late.

        Entries are ordered by time (unless a clock was set back by more than a minute), so the last one that is not too
        late is found by bisection. The wanted entry is the slot's newest one among the NEARER_ENTRIES up to there. That
        entry is in the chain, because every entry of a slot is; a frequent key very probably has one there.

        Args:
            fd: Descriptor of the index file.
            number: Number of an entry in the slot's chain; no later entry is looked at.
            end_seconds: End of the wanted time, in seconds after the file's begin timestamp.

        Returns:
            Number of the entry; `number` if the slot has none among them.
        """
        # Entry 1 is left out, because its seconds count from the end of the previous file.
        behind = 1 + bisect_right(
            range(2, number + 1), end_seconds, key=lambda each: self._entry(fd, each).seconds
        )
        start = max(behind - NEARER_ENTRIES + 1, 1)
        piece = self._pread(
            fd, (behind + 1 - start) * INDEX_ENTRY_SIZE, entry_position(start, self._slot_count)
        )
        slot = self._key_hash % self._slot_count
        for at in range(len(piece) - INDEX_ENTRY_SIZE, -1, -INDEX_ENTRY_SIZE):
            if int.from_bytes(piece[at : at + 4]) % self._slot_count == slot:
                return start + at // INDEX_ENTRY_SIZE
        return number

    def _entry(self, fd: int, number: int) -> IndexEntry:
        position = entry_position(number, self._slot_count)
        return decode_entry(self._pread(fd, INDEX_ENTRY_SIZE, position))

    def _newest(self, fd: int) -> int:
        slot = slot_position(self._key_hash % self._slot_count)
        return int.from_bytes(self._pread(fd, INDEX_SLOT_SIZE, slot), signed=True)


class _ReadsAtOnce:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._left = AT_ONCE_READS

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        self._left -= 1
        piece = self._disk.pread_nowait(fd, size, offset) if self._left >= 0 else None
        if piece is None:
            raise BlockingIOError
        return bytes(piece)
