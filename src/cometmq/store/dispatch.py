"""Dispatch: makes new records visible by feeding them, in log order, to the queues and the index.

For puts, the data of the append is used and nothing is read again. Unconfirmed batches wait (for late replicas only
if a group elects its leader); with SYNC_FLUSH, consumers thus get no messages that a power cut can undo
(docs/design/0004, 0036).
"""

from collections import deque
from collections.abc import Callable, Sequence

from cometmq.store.batch import Batch
from cometmq.store.derived import Derived
from cometmq.store.positions import Positions


class LogDispatcher:
    """The queue of batches that were appended to the log but are not visible yet.

    Attributes:
        derived: Structures to feed, the consume queues first.
        dispatched_ms: About the store timestamp of the last dispatched record, ms; 0 if unknown.
        waiting: Batches to dispatch, in log order.
        on_moved: Called before each dispatch, because the log may have been written, flushed or replicated.
        raw_end: Physical offset of the end of the last records received as bytes; sends are refused until it is dispatched.
    """

    def __init__(self, positions: Positions, derived: Sequence[Derived]) -> None:
        self.derived = derived
        self._put_feeds = [each.feed_put for each in derived if each.feed_put is not None]
        self._positions = positions
        self.waiting: deque[Batch] = deque()
        self.dispatched_ms = 0
        self.raw_end = 0
        self.on_moved: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self.waiting)

    def dispatch(self) -> None:
        """Make batches visible, in log order, up to `Positions.visible_limit`.

        These are the confirmed ones and, unless a group elects its leader, those that replicas did not get in time. First
        calls `on_moved`, if it is set.
        """
        if self.on_moved is not None:
            self.on_moved()
        waiting = self.waiting
        if not waiting:
            return
        positions = self._positions
        upto = positions.visible_limit()
        while waiting and waiting[0][0] <= upto:
            batch = waiting.popleft()
            if batch[5] is None:
                # A put, as nearly all batches are: its records need not be decoded.
                for feed_put in self._put_feeds:
                    feed_put(batch)
            else:
                for derived in self.derived:
                    derived.feed(batch)
            positions.dispatched_to(batch[0])
            self.dispatched_ms = batch[1]
