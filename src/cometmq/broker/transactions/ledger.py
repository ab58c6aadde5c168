"""Which halves are open: made from the half and op queues at the start, kept by reading on.

A half that a producer's retry or a check stored again is the same transaction: its copies are one
entry, and end together. The two offsets that a start begins to read at follow the oldest open half.

Next: cometmq.broker.queue_cursor
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from cometmq.broker.queue_cursor import QueueCursor
from cometmq.broker.transactions.halves import Key, decode_op, key_of, number_of
from cometmq.codec.record import Record
from cometmq.model import properties as keys_of
from cometmq.model.errors import CodecError

_log = logging.getLogger(__name__)

# Each open half costs about 540 bytes.
OPEN_MAX = 500_000
# What became of transactions is remembered of so many, to answer a second end of one.
_ENDED_MAX = 20_000


@dataclass(slots=True, eq=False)
class OpenHalf:
    """A transaction that waits for its end.

    Attributes:
        key: which.
        offsets: of its copies in the half queue; the last one is what producers are asked about.
        born_ms: when the producer made it.
        stored_ms: when the last copy was stored.
        immunity_seconds: CHECK_IMMUNITY_TIME_IN_SECONDS, or None.
        is_inherited: it was there at the start, and may have been committed without an op.
    """

    key: Key
    offsets: list[int]
    born_ms: int
    stored_ms: int
    immunity_seconds: int | None
    is_inherited: bool

    @property
    def offset(self) -> int:
        """Half offset of the copy that counts."""
        return self.offsets[-1]


class Ledger:
    """The open halves of a broker.

    Attributes:
        open: by transaction.
        ended: what became of the last ones that are not open any more: a word for people.
        unmarked: half offsets that are done and stand in no op yet.
    """

    def __init__(self, halves: QueueCursor, ops: QueueCursor) -> None:
        """`halves` and `ops` stand where the last life of this store left off."""
        self.open: dict[Key, OpenHalf] = {}
        self.ended: dict[Key, str] = {}
        self.unmarked: list[int] = []
        self.halves = halves
        self._ops_read = ops
        self._by_offset: dict[int, OpenHalf] = {}
        self._order: deque[int] = deque()  # Half offsets as they came; some are done by now.
        self._done: set[int] = set()  # Done before they were read.
        self._ops: deque[tuple[int, int]] = deque()  # (op offset, greatest half offset in it)
        self._next_op = ops.offset
        self._is_loading = True

    # --- reading

    async def load(self) -> None:
        """Read both queues to their ends; before anything else.

        Raises:
            CodecError, OSError: a record cannot be read.
        """
        while records := await self._ops_read.read():
            for record in records:
                offsets = decode_op(record.body)
                self._done.update(offsets)
                self.op_written(record.queue_offset, offsets)
        await self.catch_up()
        self._done.clear()  # All that they tell of was read.
        self._is_loading = False

    async def catch_up(self) -> None:
        """Read the halves that came since.

        Raises:
            CodecError, OSError: as `load`.
        """
        while not self.halves.is_at_end:
            for record in await self.halves.read():
                self._add(record)

    def _add(self, record: Record) -> None:
        offset = record.queue_offset
        try:
            properties = record.properties()
        except CodecError as error:
            _log.error("the half message at %d is passed over: %s", offset, error)
            return
        prepared = number_of(properties, keys_of.TRAN_PREPARED_QUEUE_OFFSET)
        if offset in self._done:
            self._done.discard(offset)
            return
        if prepared in self._done:
            # Java's broker ended the copy that the producer knew, and not this one.
            self.unmarked.append(offset)
            return
        key = key_of(record, properties)
        half = self.open.get(key)
        if half is None:
            immunity = number_of(properties, keys_of.CHECK_IMMUNITY_SECONDS)
            half = OpenHalf(
                key,
                [],
                record.born_timestamp,
                record.store_timestamp,
                immunity,
                is_inherited=self._is_loading,
            )
            self.open[key] = half
        half.stored_ms = record.store_timestamp
        self._track(half, offset)

    def _track(self, half: OpenHalf, offset: int) -> None:
        half.offsets.append(offset)
        self._by_offset[offset] = half
        self._order.append(offset)

    # --- finding

    def find(self, offset: int, key: Key) -> OpenHalf | None:
        """The open half with a copy at this half offset, or of this transaction."""
        return self._by_offset.get(offset) or self.open.get(key)

    def due(self, is_due: Callable[[OpenHalf], bool]) -> list[OpenHalf]:
        """Open halves that are due."""
        return [half for half in self.open.values() if is_due(half)]

    # --- changes; each is written by who calls it

    def take(self, half: OpenHalf, became: str) -> None:
        """A transaction ends; `became` says how."""
        del self.open[half.key]
        self._forget(half.offsets)
        self.ended.pop(half.key, None)
        self.ended[half.key] = became
        if len(self.ended) > _ENDED_MAX:
            del self.ended[next(iter(self.ended))]

    def give_back(self, half: OpenHalf) -> None:
        """Its end could not be written: it is open again."""
        self.ended.pop(half.key, None)
        self.open[half.key] = half
        self._by_offset.update(dict.fromkeys(half.offsets, half))
        self._order = deque(sorted({*self._order, *half.offsets}))

    def stored_anew(self, half: OpenHalf, offset: int, *, stored_ms: int) -> None:
        """A half has a new copy; those before it are done."""
        self._forget(half.offsets)
        half.offsets = []
        half.stored_ms = stored_ms
        self._done.add(offset)  # It is known; reading passes it over.
        self._track(half, offset)

    def op_written(self, op_offset: int, offsets: list[int]) -> None:
        """An op lies in the op queue."""
        self._next_op = op_offset + 1
        if offsets:
            self._ops.append((op_offset, max(offsets)))

    def _forget(self, offsets: list[int]) -> None:
        for offset in offsets:
            del self._by_offset[offset]

    # --- where a start begins

    def positions(self) -> tuple[int, int]:
        """Half offset and op offset that a start must read from, for what is known now."""
        order = self._order
        while order and order[0] not in self._by_offset:
            order.popleft()
        half_offset = min(order[0], self.halves.offset) if order else self.halves.offset
        while self._ops and self._ops[0][1] < half_offset:
            self._ops.popleft()
        return half_offset, self._ops[0][0] if self._ops else self._next_op
