"""The only writer: gives each message its offsets, packs its record, writes a batch at once.

A put is a plain tuple, and so is what comes of it: a frozen dataclass would cost as much as
everything else here together. What does not change from message to message is packed once: the
topic with its length (`encode_topic_block`), the layouts by the kinds of the two hosts. Heads,
bodies and properties are joined into one bytes, which is one `pwrite`.

Next: cometmq.store.commitlog
"""

import struct
from collections.abc import Sequence

from cometmq.codec import property_crc
from cometmq.codec.host import HOST_V4_SIZE, HOST_V6_SIZE, NO_HOST
from cometmq.codec.record import (
    BLANK_TAIL_SIZE,
    RECORD_HEADS,
    blank_tail,
    topic_block,
)
from cometmq.kernel import pack_records
from cometmq.model.clock import Clock
from cometmq.model.errors import RecordIllegal
from cometmq.model.flags import BORN_HOST_V6, STORE_HOST_V6
from cometmq.store.commitlog import CommitLog, Piece
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.disk import Buffer
from cometmq.store.log_file import LogFile
from cometmq.store.settings import StoreSettings

# (queue, topic block, body, properties, tags code, flag, sysFlag, born time in ms, born host,
#  reconsume times, prepared offset, transaction bits of the sysFlag).
# A tags code of None stands for the due time of a message in the delay topic.
Put = tuple[
    ConsumeQueue, bytes, Buffer, Buffer, int | None, int, int, int, bytes, int, int, int
]

# (queue offset, physical offset, record size in bytes)
PutResult = tuple[int, int, int]

# (queue, queue offset, physical offset, record size, tags code): a queue entry that is due.
Arrival = tuple[ConsumeQueue, int, int, int, int]

_SHORT_SIZE = 2  # The size of the properties, in front of them.
_CLOCK_STEP_BACK_MS = 60_000  # More than this is a correction of a clock that ran ahead.


def encode_topic_block(topic: str) -> bytes:
    """A topic as records hold it, its length in front; it is worth keeping for each topic.

    Raises:
        CodecError: it is longer than a record can hold.
    """
    return topic_block(topic.encode())[1]


def delay_of_level(levels_ms: Sequence[int], level: int) -> int:
    """Delay of a level; beyond the last one it is a second (computeDeliverTimestamp)."""
    return levels_ms[level - 1] if level <= len(levels_ms) else 1000


class Batch:
    """What has been packed so far, and where the next record goes.

    Attributes:
        puts: all of it, and
        results: where each lies, for what dispatch builds beside the queues.
    """

    __slots__ = (
        *("_log", "arrivals", "content", "end", "file", "pieces", "position", "puts"),
        *("results", "start"),
    )

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self.puts: Sequence[Put] = ()
        self.results: list[PutResult] = []
        self.pieces: list[Piece] = []
        self.arrivals: list[Arrival] = []
        self.content: list[Buffer] = []
        self._begin(log.tail_file(), log.written)

    def _begin(self, file: LogFile, offset: int) -> None:
        self.file = file
        self.start = self.position = offset
        self.end = file.end - BLANK_TAIL_SIZE

    def roll(self, position: int) -> int:
        """Close this file with its end mark and go on in the next; gives its first offset.

        Raises:
            StoreFull: there is no room for another file.
            OSError: it could not be made.
        """
        self.content.append(blank_tail(self.file.end - position))
        self.cut(position + BLANK_TAIL_SIZE)
        following = self._log.file_from(self.file.end)
        self._begin(following, following.start)
        return following.start

    def cut(self, position: int) -> None:
        """What has been packed up to here is one piece."""
        self.pieces.append(Piece(self.file, self.start, b"".join(self.content)))
        self.content.clear()


class Appender:
    """Writes records at the log's end.

    Attributes:
        store_host: this broker as records name it, 8 or 20 bytes.
        store_ms: store timestamp of the last batch.
    """

    def __init__(self, log: CommitLog, settings: StoreSettings, clock: Clock) -> None:
        self._log = log
        self._appends_crc = settings.append_property_crc
        self._clock = clock
        self._delay_levels_ms = settings.delay_levels_ms
        self._record_size_max = log.chain.file_size - BLANK_TAIL_SIZE
        self.store_ms = 0
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

    def append(
        self, puts: Sequence[Put], *, is_together: bool
    ) -> tuple[list[PutResult], Batch]:
        """Write a batch of messages.

        Args:
            puts: the messages.
            is_together: all of them must lie in one file (a batch message).

        Returns:
            Where each lies, in order; and the batch, whose arrivals are to be dispatched.

        Raises:
            RecordIllegal: one of them is longer than a log file, or a number out of range.
            StoreFull: no room for another file.
            OSError: the disk failed. In each case nothing has been stored.
        """
        batch = Batch(self._log)
        results: list[PutResult] = []
        if self._appends_crc:
            puts = [(*put[:3], property_crc.with_room(put[3]), *put[4:]) for put in puts]
        try:
            if is_together:
                self._make_room(puts, batch)
            position = self._pack(puts, batch, results)
            batch.cut(position)
            if self._appends_crc:
                batch.pieces = _with_crcs(batch.pieces, results)
            self._log.commit(batch.pieces)
            batch.puts, batch.results = puts, results
            batch.pieces = []  # With synchronous flush the batch waits, its bytes need not.
        except BaseException as error:
            for arrival in batch.arrivals:
                arrival[0].next_offset -= 1
            if isinstance(error, (struct.error, OverflowError, KeyError)):
                raise RecordIllegal(f"a field out of its range: {error}") from error
            raise
        return results, batch

    def _pack(self, puts: Sequence[Put], batch: Batch, results: list[PutResult]) -> int:
        """Lay the records out; gives the physical offset behind the last."""
        store_ms, count = self._store_time(), len(puts)
        some = puts if isinstance(puts, list) else list(puts)
        packed, position = 0, batch.position
        while True:
            packed, position = pack_records(
                some, packed, position, batch.end, self._layouts, store_ms,
                self.store_host, self._due_ms, batch.content, batch.arrivals, results,
            )  # fmt: skip
            if packed == count:
                return position
            self._check_size(self._size_of(puts[packed]))
            position = batch.roll(position)

    def _size_of(self, put: Put) -> int:
        """Bytes of its record."""
        _, topic, body, properties, _, _, _, _, born_host, _, _, _ = put
        return self._layouts[len(born_host)][1] + len(body) + len(topic) + len(properties)

    def _check_size(self, size: int) -> None:
        """Refuse what fits into no file."""
        if size > self._record_size_max:
            raise RecordIllegal(
                f"a record of {size} bytes; a log file (mappedFileSizeCommitLog) holds "
                f"{self._record_size_max}"
            )

    def _make_room(self, puts: Sequence[Put], batch: Batch) -> None:
        """Roll before a batch message that would otherwise lie in two files."""
        size = sum(map(self._size_of, puts))
        if batch.position + size > batch.end:
            self._check_size(size)
            batch.roll(batch.position)

    def _store_time(self) -> int:
        """The time of a batch; a clock that is set back a little does not set it back."""
        now_ms = self._clock.now_ms()
        if not 0 < self.store_ms - now_ms < _CLOCK_STEP_BACK_MS:
            self.store_ms = now_ms
        return self.store_ms

    def _due_ms(self, queue_id: int) -> int:
        """When a message in the delay topic is due."""
        return self.store_ms + delay_of_level(self._delay_levels_ms, queue_id + 1)


def _with_crcs(pieces: Sequence[Piece], results: Sequence[PutResult]) -> list[Piece]:
    """The same pieces of the log, with the CRCs of their records filled in."""
    filled = [Piece(file, start, bytearray(content)) for file, start, content in pieces]
    left = iter(filled)
    piece = next(left)
    for _, offset, size in results:
        while offset >= piece.offset + len(piece.content):
            piece = next(left)
        assert isinstance(piece.content, bytearray)
        property_crc.fill_in(piece.content, offset - piece.offset, size)
    return filled
