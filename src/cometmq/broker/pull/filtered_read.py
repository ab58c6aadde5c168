"""Reads records through a filter on their properties, in rounds until enough of them have passed or a limit is reached.

The kernel has filters for most expressions and tests all messages of a read that are in memory (`MessageStore.get_filtered`);
other reads test one message after the other. A read examines as many entries as RocketMQ's (800) at most, and works for
some milliseconds (plus waits for the disk), so that a filter that matches nothing cannot block the event loop for long.
The result has the offset at which the next read continues.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

from cometmq.codec.record import QUEUE_OFFSET_AT, property_block
from cometmq.kernel import PropertyFilter
from cometmq.model.clock import Clock
from cometmq.steps.steps import Steps
from cometmq.store.message_store import MessageStore
from cometmq.store.reader import GetResult, GetStatus

SECONDS_MAX = 0.005  # Time for examining messages; at least one is examined.
LOOKED_MAX = 800  # maxFilterMessageSize 16,000 of MessageStoreConfig, 20 bytes an entry.
Result = TypeVar("Result")
_TURN = 32  # Messages per round: the most that a pull of recent messages returns.


class TimeBudget:
    """The `seconds` that a request may still spend on examining messages; waiting for the disk does not count."""

    __slots__ = ("now", "seconds")

    def __init__(self, clock: Clock) -> None:
        self.now = clock.monotonic
        self.seconds = SECONDS_MAX

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.seconds <= 0


class ReadRequest(NamedTuple):
    """A request for messages of a queue that pass a filter on their properties.

    Attributes:
        offset: Queue offset at which to start.
        count_max: Largest number of messages.
        size_max: Largest size in bytes; the first message is returned whatever its size.
        passes: Returns whether a message with this property block is wanted.
        fast: As in `MessageFilter`.
    """

    topic: str
    queue_id: int
    offset: int
    count_max: int
    size_max: int
    passes: Callable[[bytes], bool]
    fast: PropertyFilter | None = None


class FilteredRead:
    """A read of one queue through a filter.

    Attributes:
        is_cut: Whether the read ended because its time, or the number of messages that it may examine, was used up.
    """

    def __init__(
        self,
        store: MessageStore,
        request: ReadRequest,
        budget: TimeBudget,
        lend: Callable[[Callable[[], GetResult]], Steps[GetResult]],
    ) -> None:
        """`lend` runs a read that must wait for the disk in a thread."""
        self._store = store
        self._request = request
        self._effort = budget
        self._lend = lend
        self._offset = request.offset
        self._records: list[memoryview] = []
        self._size = 0
        self._until = 0.0
        self.is_cut = False

    def steps(self) -> Steps[GetResult]:
        """Return the messages that pass, or the reason why there are none; only reads from the disk wait.

        The read ends when enough are found, at the queue's end, after 800 entries, or when the time is used up.
        """
        together = self._timed(self._read_together)
        if together is not None:
            return together
        while True:
            result = self._timed(self._read)
            if result.cold is None:
                return result
            read = yield from self._lend(result.cold)
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

    def _read_together(self) -> GetResult | None:
        """Read and test the messages together; None if they must be tested one by one."""
        request = self._request
        queue = self._store.queue(request.topic, request.queue_id)
        if request.fast is None or queue is None or queue.is_batch:
            return None
        result = self._store.get_filtered(
            queue, request.offset,
            max_count=request.count_max, max_bytes=request.size_max, wanted=request.fast,
        )  # fmt: skip
        if result is not None:
            looked = result.next_offset - request.offset
            self.is_cut = looked >= LOOKED_MAX and result.next_offset < result.max_offset
        return result

    def _read(self) -> GetResult:
        request = self._request
        while True:
            result = self._store.get(
                request.topic, request.queue_id, self._offset,
                max_count=min(_TURN, request.offset + LOOKED_MAX - self._offset),
                max_bytes=request.size_max,
            )  # fmt: skip
            if result.cold is not None:
                return result
            done = self._filter(result)
            if done is not None:
                return done

    def _filter(self, result: GetResult) -> GetResult | None:
        """Filter the records that were read; return the final result, or None to read on."""
        if result.status is not GetStatus.FOUND:
            return self._result(result) if self._offset > self._request.offset else result
        is_over = self._keep_passing(result)
        looked = self._offset - self._request.offset
        if is_over or self._offset >= result.max_offset:
            return self._result(result)
        if looked >= LOOKED_MAX:
            self.is_cut = True
            return self._result(result)
        return None

    def _keep_passing(self, result: GetResult) -> bool:
        """Keep the records that pass; return whether the answer is full or its time is up."""
        request, now, until = self._request, self._effort.now, self._until
        for piece in result.records:
            start, end = 0, len(piece)
            while start < end:
                record = piece[start : start + int.from_bytes(piece[start : start + 4])]
                start += len(record)
                # As in RocketMQ, a full answer ends before the next message, which need not pass.
                if self._records and (
                    len(self._records) >= request.count_max
                    or self._size + len(record) > request.size_max
                ):
                    self._offset = _offset_of(record)
                    return True
                if request.passes(property_block(record)):
                    self._records.append(record)
                    self._size += len(record)
                if now() > until:
                    self._offset, self.is_cut = _offset_of(record) + 1, True
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
