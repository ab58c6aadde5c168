"""The appender, the only writer of new messages: assigns offsets, packs records and appends each batch as a whole.

A put (a message to be stored) is a plain tuple (`store.batch`). Parts that do not change between messages are packed
once: the topic with its length (`encode_topic_block`), and record layouts for IPv4 and IPv6 hosts. Headers, bodies
and properties are joined into one bytes object per log file, usually written with one `pwrite`.
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
_SHORT_SIZE = 2  # Size of the length field in front of the properties.
_CLOCK_STEP_BACK_MS = 60_000  # A larger step back is a correction of a clock that was ahead.

# (first, position, end, content): packs records from the first on, between two positions, and appends their bytes to
# content. Returns the index of the first record that did not fit, and the position after the last that did.
Pack = Callable[[int, int, int, list[Buffer]], tuple[int, int]]


def encode_topic_block(topic: str) -> bytes:
    """Return a topic as records store it, with its length in front; raise CodecError if it is too long for a record."""
    return topic_block(topic.encode())[1]


def delay_of_level(levels_ms: Sequence[int], level: int) -> int:
    """Return the delay in ms of a level from 1 on; 1 s for levels beyond the last one (computeDeliverTimestamp)."""
    return levels_ms[level - 1] if level <= len(levels_ms) else 1000


class Appender:
    """Writes records at the end of the log.

    Attributes:
        store_host: Address of this broker in records, 8 or 20 bytes.
        store_ms: Store timestamp of the last batch, even if its write failed, ms.
        refusal: Why puts are refused, while the log is a copy of a master's; None while they are accepted.
    """

    def __init__(self, log: CommitLog, settings: StoreSettings, clock: Clock) -> None:
        self._log = log
        self._appends_crc = settings.is_whole_crc_written
        self._clock = clock
        self._delay_levels_ms = settings.delay_levels_ms
        self._record_size_max = log.chain.file_size - BLANK_TAIL_SIZE
        self.store_ms = 0
        self.refusal: str | None = None
        self.set_store_host(NO_HOST)

    def set_store_host(self, host: bytes) -> None:
        """Set the address of this broker in records, 8 or 20 bytes."""
        assert len(host) in (HOST_V4_SIZE, HOST_V6_SIZE)
        self.store_host = host
        store_bit = STORE_HOST_V6 if len(host) == HOST_V6_SIZE else 0
        # By size of the born host: packer of the header, bytes besides topic, body and properties, host flags.
        self._layouts = {
            size: (RECORD_HEADS[bits].pack, RECORD_HEADS[bits].size + _SHORT_SIZE, bits)
            for size, bits in (
                (HOST_V4_SIZE, store_bit),
                (HOST_V6_SIZE, store_bit | BORN_HOST_V6),
            )
        }

    def append(self, puts: Sequence[Put], *, is_together: bool) -> Batch:
        """Append a batch of messages, all of them or none; with `is_together` (a batch message), all into one log file.

        Raises:
            RecordIllegal: A record (with `is_together`: all of them together) is too large for a log file, or a field
                is out of range.
            StoreFull: No other file can be created at present.
            OSError: A file of the log could not be created or written.
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
                raise RecordIllegal(f"a message field is out of range: {error}") from error
            raise
        written = self._log.positions.written
        # Takes half the time of `Batch(...)`; runs for each single send.
        return _new_tuple(Batch, (written, self.store_ms, results, puts, arrivals, None, None))

    def append_columns(self, sends: Columns) -> Batch:
        """Append a batch of simple sends in column form, all of them or none, and fill in their offsets.

        Raises:
            RecordIllegal: The records of a request are too large for a log file, or a field is out of range.
            StoreFull: No other file can be created at present.
            OSError: A file of the log could not be created or written.
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
                raise RecordIllegal(f"a message field is out of range: {error}") from error
            raise
        return _new_tuple(Batch, (written, self.store_ms, [], (), [], None, sends))

    def _lay_out_columns(self, sends: Columns, file: LogFile, start: int) -> list[Piece]:
        """Pack sends that do not all fit into the current file; return their bytes per file."""

        def pack(first: int, position: int, end: int, content: list[Buffer]) -> tuple[int, int]:
            return pack_columns(
                sends, first, position, end, self._layouts, self.store_ms,
                self.store_host, content,
            )  # fmt: skip

        def size_of(index: int) -> int:
            """Return the size in bytes of all records of a request, which must be in one file."""
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
        """Pack the records; return a piece (file, position, bytes) for each log file; fill `results` and `arrivals`."""
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
        """Set the store time of the batch: now, or the last batch's if the clock is less than a minute behind that."""
        now_ms = self._clock.now_ms()
        if not 0 < self.store_ms - now_ms < _CLOCK_STEP_BACK_MS:
            self.store_ms = now_ms

    def _lay_out(
        self, pack: Pack, size_of: Callable[[int], int], count: int,
        file: LogFile, position: int, end: int,
    ) -> list[Piece]:  # fmt: skip
        """Pack records from `position` on, up to `end` in the first file, then into later ones; return the pieces."""
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
        size = sum(map(self._size_of, puts))
        self._check_size(size)
        return size

    def _size_of(self, put: Put) -> int:
        _, topic, body, properties, _, _, _, _, born_host, _, _, _ = put
        return self._layouts[len(born_host)][1] + len(body) + len(topic) + len(properties)

    def _check_size(self, size: int) -> None:
        if size > self._record_size_max:
            raise RecordIllegal(
                f"the record has {size} bytes; a log file (mappedFileSizeCommitLog) has room for "
                f"{self._record_size_max}"
            )

    def _due_ms(self, queue_id: int) -> int:
        """Return the time when a message in a queue of the delay topic is due, ms since 1970."""
        return self.store_ms + delay_of_level(self._delay_levels_ms, queue_id + 1)


def _with_crcs(pieces: Sequence[Piece], results: Sequence[PutResult]) -> list[Piece]:
    filled = [(file, start, bytearray(content)) for file, start, content in pieces]
    left = iter(filled)
    _, start, content = next(left)
    for _, offset, size in results:
        while offset >= start + len(content):
            _, start, content = next(left)
        property_crc.fill_in(content, offset - start, size)
    return [*filled]
