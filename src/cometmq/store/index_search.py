"""One question to the index: which records have this key, the newest first.

It is prepared on the thread that owns the store and carried out anywhere: what grows is looked up
before (the newest entry of the slot), entries behind it do not change any more. The rules are
IndexService.queryOffset and IndexFile.selectPhyOffset of RocketMQ 5.3.3. An entry knows its time to the
second, rounded down, and a hash may stand for several keys: both are candidates only, and the caller compares
the records.
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
from cometmq.store.disk import Disk

# A chain of a key that comes very often is not followed step by step to a time long ago: after so
# many steps its entry nearest to that time is looked for among so many.
LATE_STEPS_MAX = 256
NEARER_ENTRIES = 4096


class IndexView(NamedTuple):
    """A file as a search sees it.

    Attributes:
        path: its name.
        header: at the moment of the question.
        newest: newest entry of the slot that is asked for; None: look into the file.
    """

    path: str
    header: IndexHeader
    newest: int | None


class IndexAnswer(NamedTuple):
    """The result of a search in the index.

    Attributes:
        offsets: physical offsets of records whose key has the hash and whose store time may be one that was
            asked for, the newest first, each once; they are looked up as they are taken, which may wait for
            the device and raise OSError.
        last_ms: store time of the newest record indexed, ms.
        last_offset: its physical offset.
    """

    offsets: Iterator[int]
    last_ms: int
    last_offset: int


class IndexSearch:
    """A question that has been prepared; `run` may wait for the device. Any thread, once."""

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
        self._views = views  # The newest last.
        self._key_hash = key_hash
        self._slot_count = slot_count
        self._begin_ms = begin_ms
        self._end_ms = end_ms

    def run(self) -> IndexAnswer:
        """Return the records that may be those asked for."""
        if not self._views:
            return IndexAnswer(iter(()), 0, 0)
        newest = self._views[-1].header
        return IndexAnswer(self._offsets(), newest.end_timestamp, newest.end_offset)

    def _offsets(self) -> Iterator[int]:
        found: set[int] = set()  # A record may stand twice: Java enters some again.
        for view in reversed(self._views):
            if self._overlaps(view.header):
                with suppress(FileNotFoundError):  # Its messages were deleted meanwhile.
                    for offset in self._look(view):
                        if offset not in found:
                            found.add(offset)
                            yield offset
            if view.header.begin_timestamp < self._begin_ms:
                break

    def _overlaps(self, header: IndexHeader) -> bool:
        """Whether a file may have messages of the time asked for (isTimeMatched)."""
        return header.begin_timestamp <= self._end_ms and header.end_timestamp >= self._begin_ms

    def _look(self, view: IndexView) -> Iterator[int]:
        """Walk the chain of one file."""
        fd = self._disk.open(view.path, write=False)
        try:
            yield from self._matches(fd, view)
        finally:
            self._disk.close(fd)

    def _matches(self, fd: int, view: IndexView) -> Iterator[int]:
        """Physical offsets of the entries that match, the newest first."""
        count, begin_file_ms = view.header.index_count, view.header.begin_timestamp
        number = self._newest(fd) if view.newest is None else view.newest
        late = 0
        while 0 < number < count:
            entry = self._entry(fd, number)
            time_ms = begin_file_ms + entry.seconds * 1000
            # The record was stored within the second that begins then.
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
        """Skip entries of a chain that are later than the time asked for.

        Entries are in the order of time (but where a clock was set back by more than a minute), and
        each entry of a slot is in its chain: so a key that came very often is met just before the
        end of the time asked for.
        """
        # But for the first one, which counts from the end of the file before.
        behind = 1 + bisect_right(
            range(2, number + 1), end_seconds, key=lambda each: self._entry(fd, each).seconds
        )
        start = max(behind - NEARER_ENTRIES + 1, 1)
        piece = self._disk.pread(
            fd, (behind + 1 - start) * INDEX_ENTRY_SIZE, entry_position(start, self._slot_count)
        )
        slot = self._key_hash % self._slot_count
        for at in range(len(piece) - INDEX_ENTRY_SIZE, -1, -INDEX_ENTRY_SIZE):
            if int.from_bytes(piece[at : at + 4]) % self._slot_count == slot:
                return start + at // INDEX_ENTRY_SIZE
        return number

    def _entry(self, fd: int, number: int) -> IndexEntry:
        position = entry_position(number, self._slot_count)
        return decode_entry(self._disk.pread(fd, INDEX_ENTRY_SIZE, position))

    def _newest(self, fd: int) -> int:
        """The newest entry of the slot, as the file has it."""
        slot = slot_position(self._key_hash % self._slot_count)
        return int.from_bytes(self._disk.pread(fd, INDEX_SLOT_SIZE, slot), signed=True)
