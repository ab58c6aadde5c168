"""A read through a filter on properties: records are read in turns until enough of them passed.

The store knows queue entries and nothing of what a record says, so this stands above it. One read
looks at as many entries as RocketMQ's (800), and for some milliseconds at most, so that a filter that
lets nothing through never holds the loop for long; the next pull goes on behind them.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

from cometmq.broker.loop.steps import Elsewhere, Steps
from cometmq.codec.record import QUEUE_OFFSET_AT, property_block
from cometmq.model.clock import Clock
from cometmq.store.message_store import MessageStore
from cometmq.store.reader import GetResult, GetStatus

SECONDS_MAX = 0.005  # Of looking; at one message at least.
LOOKED_MAX = 800  # maxFilterMessageSize 16,000 of MessageStoreConfig, 20 bytes an entry.
Result = TypeVar("Result")
_TURN = 32  # What a pull of recent messages gives at most.


class TimeBudget:
    """The time that a request may still spend on looking at messages.

    Attributes:
        seconds: what is left; of the loop's time, not of the clock's.
    """

    __slots__ = ("now", "seconds")

    def __init__(self, clock: Clock) -> None:
        self.now = clock.monotonic
        self.seconds = SECONDS_MAX

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self.seconds <= 0


class ReadRequest(NamedTuple):
    """Messages of a queue that pass a filter on their properties.

    Attributes:
        topic: of the queue.
        queue_id: of the queue.
        offset: queue offset of the first message.
        count_max: most messages.
        size_max: most bytes; the first message is given whatever its size.
        passes: says of a property block whether its message is wanted.
    """

    topic: str
    queue_id: int
    offset: int
    count_max: int
    size_max: int
    passes: Callable[[bytes], bool]


class FilteredRead:
    """One such read."""

    def __init__(self, store: MessageStore, request: ReadRequest, budget: TimeBudget) -> None:
        """`budget` may be that of several reads, one after the other."""
        self._store = store
        self._request = request
        self._effort = budget
        self._offset = request.offset
        self._records: list[memoryview] = []
        self._size = 0
        self._until = 0.0

    def steps(self) -> Steps[GetResult]:
        """Read until enough is found, or the budget is spent; what waits for the device is done elsewhere."""
        while True:
            result = self._timed(self._read)
            if result.cold is None:
                return result
            read = yield Elsewhere(result.cold)
            done = self._timed(partial(self._filter, read))
            if done is not None:
                return done

    def _timed(self, work: Callable[[], Result]) -> Result:
        budget = self._effort
        self._until = budget.now() + budget.seconds
        try:
            return work()
        finally:
            budget.seconds = self._until - budget.now()

    def _read(self) -> GetResult:
        request = self._request
        while True:
            result = self._store.get(
                request.topic, request.queue_id, self._offset,
                max_count=_TURN, max_bytes=request.size_max,
            )  # fmt: skip
            if result.cold is not None:
                return result
            done = self._filter(result)
            if done is not None:
                return done

    def _filter(self, result: GetResult) -> GetResult | None:
        """Filter what was read; the result of all, or None when more is to be read."""
        if result.status is not GetStatus.FOUND:
            return self._result(result) if self._offset > self._request.offset else result
        is_over = self._keep_passing(result)
        looked = self._offset - self._request.offset
        if is_over or self._offset >= result.max_offset or looked >= LOOKED_MAX:
            return self._result(result)
        return None

    def _keep_passing(self, result: GetResult) -> bool:
        """Keep what passes; whether the answer is full, or its time is over."""
        request, now, until = self._request, self._effort.now, self._until
        for piece in result.records:
            start, end = 0, len(piece)
            while start < end:
                record = piece[start : start + int.from_bytes(piece[start : start + 4])]
                start += len(record)
                if not request.passes(property_block(record)):
                    if now() > until:
                        self._offset = _offset_of(record) + 1
                        return True
                    continue
                is_first = not self._records
                if not is_first and (
                    len(self._records) >= request.count_max
                    or self._size + len(record) > request.size_max
                ):
                    self._offset = _offset_of(record)
                    return True
                self._records.append(record)
                self._size += len(record)
                if now() > until:
                    self._offset = _offset_of(record) + 1
                    return True
        self._offset = result.next_offset
        return False

    def _result(self, last: GetResult) -> GetResult:
        status = GetStatus.FOUND if self._records else GetStatus.NO_MATCHED_MESSAGE
        return GetResult(
            status, self._offset, last.min_offset, last.max_offset,
            self._records, len(self._records), self._size, last.suggest_slave,
        )  # fmt: skip


def _offset_of(record: memoryview) -> int:
    return int.from_bytes(record[QUEUE_OFFSET_AT : QUEUE_OFFSET_AT + 8])
