"""New records become visible: what is built from the log is fed with them, in its order.

It works from what the append knows and reads nothing again. The broker calls it right after it has
written its answers; what is not confirmed yet waits, so that nobody consumes what a power cut can
take back (docs/design/0004, 0036).
"""

from collections import deque
from collections.abc import Callable, Sequence

from cometmq.store.batch import Batch
from cometmq.store.derived import Derived
from cometmq.store.positions import Positions


class LogDispatcher:
    """Batches that are written and not visible yet.

    Attributes:
        derived: what is fed; the queues first.
        dispatched_ms: store timestamp of the last record that is in its queue.
        waiting: the batches, in the order of the log.
        on_moved: told when the log may have been written, flushed or replicated, before anything is shown.
        raw_end: physical offset behind the last record that came as bytes: no put may come before it is
            dispatched, for its queue offset follows from that.
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
        """Make visible what is confirmed."""
        if self.on_moved is not None:
            self.on_moved()
        waiting = self.waiting
        if not waiting:
            return
        positions = self._positions
        upto = positions.visible_limit()
        while waiting and waiting[0][0] <= upto:
            batch = waiting.popleft()
            if (
                batch[5] is None
            ):  # It was put, as nearly all are: its records need not be decoded.
                for feed_put in self._put_feeds:
                    feed_put(batch)
            else:
                for derived in self.derived:
                    derived.feed(batch)
            positions.dispatched_to(batch[0])
            self.dispatched_ms = batch[1]
