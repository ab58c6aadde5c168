"""The only writer: gives each message its offsets, packs its record, writes a batch at once.

A put is a plain tuple (cometmq.store.batch). What does not change from message to message is packed once: the
topic with its length (`encode_topic_block`), the layouts by the kinds of the two hosts. Heads,
bodies and properties are joined into one bytes, which is one `pwrite`.
"""

import struct
from collections.abc import Callable, Sequence

from cometmq.codec import property_crc
from cometmq.codec.host import HOST_V4_SIZE, HOST_V6_SIZE, NO_HOST
from cometmq.codec.record import (
    BLANK_TAIL_SIZE,
    RECORD_HEADS,
    blank_tail,
    topic_block,
)
from cometmq.kernel import pack_columns, pack_records, take_back
from cometmq.model.clock import Clock
from cometmq.model.errors import RecordIllegal
from cometmq.model.flags import BORN_HOST_V6, STORE_HOST_V6
from cometmq.store.batch import Arrival, Batch, Columns, Put, PutResult
from cometmq.store.commitlog import CommitLog, Piece
from cometmq.store.disk import Buffer
from cometmq.store.log_file import LogFile
from cometmq.store.settings import StoreSettings

__all__ = ["Appender", "Put", "PutResult", "delay_of_level", "encode_topic_block"]

_new_tuple = tuple.__new__
_SHORT_SIZE = 2  # The size of the properties, in front of them.
_CLOCK_STEP_BACK_MS = 60_000  # More than this is a correction of a clock that ran ahead.

# Lays records out from one on, from a position up to an end, and adds their bytes; gives the first that had no
# room, and the position behind the last.
Pack = Callable[[int, int, int, list[Buffer]], tuple[int, int]]


def encode_topic_block(topic: str) -> bytes:
    """A topic as records hold it, its length in front; it is worth keeping for each topic.

    Raises:
        CodecError: it is longer than a record can hold.
    """
    return topic_block(topic.encode())[1]


def delay_of_level(levels_ms: Sequence[int], level: int) -> int:
    """Delay of a level; beyond the last one it is a second (computeDeliverTimestamp)."""
    return levels_ms[level - 1] if level <= len(levels_ms) else 1000


class Appender:
    """Writes records at the log's end.

    Attributes:
        store_host: this broker as records name it, 8 or 20 bytes.
        store_ms: store timestamp of the last batch.
        is_copy: the log is a copy of a master's, so nothing is put here.
    """

    def __init__(self, log: CommitLog, settings: StoreSettings, clock: Clock) -> None:
        self._log = log
        self._appends_crc = settings.append_property_crc
        self._clock = clock
        self._delay_levels_ms = settings.delay_levels_ms
        self._record_size_max = log.chain.file_size - BLANK_TAIL_SIZE
        self.store_ms = 0
        self.is_copy = False
        self.set_store_host(NO_HOST)

    def set_store_host(self, host: bytes) -> None:
        """Name this broker in records, by 8 or 20 bytes."""
        assert len(host) in (HOST_V4_SIZE, HOST_V6_SIZE)
        self.store_host = host
        store_bit = STORE_HOST_V6 if len(host) == HOST_V6_SIZE else 0
        # By the born host's size: how its head is packed, bytes beside the parts, host bits.
        self._layouts = {
            size: (RECORD_HEADS[bits].pack, RECORD_HEADS[bits].size + _SHORT_SIZE, bits)
            for size, bits in (
                (HOST_V4_SIZE, store_bit),
                (HOST_V6_SIZE, store_bit | BORN_HOST_V6),
            )
        }

    def append(self, puts: Sequence[Put], *, is_together: bool) -> Batch:
        """Write a batch of messages.

        Args:
            puts: the messages.
            is_together: all of them must lie in one file (a batch message).

        Raises:
            RecordIllegal: one of them is longer than a log file, or a number out of range.
            StoreFull: no room for another file.
            OSError: the disk failed. In each case nothing has been stored.
        """
        results: list[PutResult] = []
        arrivals: list[Arrival] = []
        if self._appends_crc:
            puts = [(*put[:3], property_crc.with_room(put[3]), *put[4:]) for put in puts]
        try:
            pieces = self._pack(puts, results, arrivals, is_together=is_together)
            if self._appends_crc:
                pieces = _with_crcs(pieces, results)
            self._log.commit(pieces)
        except BaseException as error:
            for arrival in arrivals:
                arrival[0].next_offset -= 1
            if isinstance(error, (struct.error, OverflowError, KeyError)):
                raise RecordIllegal(f"a field out of its range: {error}") from error
            raise
        written = self._log.positions.written
        # Half the time of `Batch(...)`, on the path of each message that comes alone.
        return _new_tuple(Batch, (written, self.store_ms, results, puts, arrivals, None, None))

    def append_columns(self, sends: Columns) -> Batch:
        """Write a batch of plain sends, which know then where they lie.

        Raises:
            RecordIllegal: one of them is longer than a log file, or its queue's number out of range.
            StoreFull: no room for another file.
            OSError: the disk failed. In each case nothing has been stored.
        """
        assert not self._appends_crc, "records with CRCs of their properties are made of puts"
        log = self._log
        content: list[Buffer] = []
        try:
            self._tick()
            file, start = log.tail_file(), log.positions.written
            packed, written = pack_columns(
                sends, 0, start, file.end - BLANK_TAIL_SIZE, self._layouts, self.store_ms,
                self.store_host, content,
            )  # fmt: skip
            if packed == sends.count:
                log.commit([(file, start, content[0])])
            else:
                take_back(sends)
                log.commit(self._lay_out_columns(sends, file, start))
                written = log.positions.written
        except BaseException as error:
            take_back(sends)
            if isinstance(error, (struct.error, OverflowError)):
                raise RecordIllegal(f"a field out of its range: {error}") from error
            raise
        return _new_tuple(Batch, (written, self.store_ms, [], (), [], None, sends))

    def _lay_out_columns(self, sends: Columns, file: LogFile, start: int) -> list[Piece]:
        """Lay out what has no room in the file that is being filled."""

        def pack(first: int, position: int, end: int, content: list[Buffer]) -> tuple[int, int]:
            return pack_columns(
                sends, first, position, end, self._layouts, self.store_ms,
                self.store_host, content,
            )  # fmt: skip

        def size_of(index: int) -> int:
            """Bytes of the records of a request, which lie in one file."""
            count = dict(sends.requests(index, index + 1))[index]
            return sum(map(self._size_of, sends.puts()[index : index + count]))

        return self._lay_out(
            pack, size_of, sends.count, file, start, file.end - BLANK_TAIL_SIZE
        )

    def _pack(
        self,
        puts: Sequence[Put],
        results: list[PutResult],
        arrivals: list[Arrival],
        *,
        is_together: bool,
    ) -> list[Piece]:
        """Lay the records out, in as many files as it takes; gives their bytes."""
        some = puts if isinstance(puts, list) else list(puts)
        self._tick()
        file, position = self._log.tail_file(), self._log.positions.written
        end = file.end - BLANK_TAIL_SIZE
        if is_together and position + self._size_of_all(some) > end:
            end = position  # None of them goes into this file.

        def pack(first: int, position: int, end: int, content: list[Buffer]) -> tuple[int, int]:
            return pack_records(
                some, first, position, end, self._layouts, self.store_ms,
                self.store_host, self._due_ms, content, arrivals, results,
            )  # fmt: skip

        return self._lay_out(
            pack, lambda index: self._size_of(some[index]), len(some), file, position, end
        )

    def _tick(self) -> None:
        """Take the time of the batch; a clock that is set back a little does not set it back."""
        now_ms = self._clock.now_ms()
        if not 0 < self.store_ms - now_ms < _CLOCK_STEP_BACK_MS:
            self.store_ms = now_ms

    def _lay_out(
        self, pack: Pack, size_of: Callable[[int], int], count: int,
        file: LogFile, position: int, end: int,
    ) -> list[Piece]:  # fmt: skip
        """Pack records from a position on, up to an end in that file; gives their bytes, file by file."""
        pieces: list[Piece] = []
        content: list[Buffer] = []
        start, packed = position, 0
        while True:
            packed, position = pack(packed, position, end, content)
            if packed == count:
                whole = content[0] if len(content) == 1 else b"".join(content)
                pieces.append((file, start, whole))
                return pieces
            self._check_size(size_of(packed))
            content.append(blank_tail(file.end - position))
            pieces.append((file, start, b"".join(content)))
            content.clear()
            file = self._log.file_from(file.end)
            start = position = file.start
            end = file.end - BLANK_TAIL_SIZE

    def _size_of_all(self, puts: list[Put]) -> int:
        """Bytes of the records of puts, which must lie in one file."""
        size = sum(map(self._size_of, puts))
        self._check_size(size)
        return size

    def _size_of(self, put: Put) -> int:
        """Bytes of the record of a put."""
        _, topic, body, properties, _, _, _, _, born_host, _, _, _ = put
        return self._layouts[len(born_host)][1] + len(body) + len(topic) + len(properties)

    def _check_size(self, size: int) -> None:
        """Refuse what fits into no file."""
        if size > self._record_size_max:
            raise RecordIllegal(
                f"a record of {size} bytes; a log file (mappedFileSizeCommitLog) holds "
                f"{self._record_size_max}"
            )

    def _due_ms(self, queue_id: int) -> int:
        """The time when a message in the delay topic is due, ms since 1970."""
        return self.store_ms + delay_of_level(self._delay_levels_ms, queue_id + 1)


def _with_crcs(pieces: Sequence[Piece], results: Sequence[PutResult]) -> list[Piece]:
    """Fill the CRCs of the records into pieces of the log."""
    filled = [(file, start, bytearray(content)) for file, start, content in pieces]
    left = iter(filled)
    _, start, content = next(left)
    for _, offset, size in results:
        while offset >= start + len(content):
            _, start, content = next(left)
        property_crc.fill_in(content, offset - start, size)
    return [*filled]
