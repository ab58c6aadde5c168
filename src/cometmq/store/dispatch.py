"""New records become visible: their entries go to the queues' tails, and who waits is told.

It works from what the append knows and reads nothing again. The broker calls it right after it has
written its answers; what is not confirmed yet waits, so that nobody consumes what a power cut can
take back (docs/design/0004, 0036).

Next: cometmq.store.consume_queue
"""

from collections import deque
from collections.abc import Callable

from cometmq.kernel import show_entries
from cometmq.store.appender import Batch
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.consume_queues import ConsumeQueues
from cometmq.store.positions import Positions

OnArrival = Callable[[ConsumeQueue, list[int]], None]
BatchBuilder = Callable[[Batch, int], None]

TAIL_SIZE_MAX = 4096  # A tail of one page is written out; see consume_queues.


class Dispatcher:
    """Batches that are written and not visible yet.

    Attributes:
        queues: where the entries go.
        dispatched_ms: store timestamp of the last record that is in its queue.
        on_arrival: told (queue, tags codes of its new messages) for each queue that is watched.
        on_queue_error: told when a full tail could not be written; the tail keeps its entries.
        builders: called with each batch and its store time as it is dispatched; the place of
            the index.
    """

    def __init__(self, queues: ConsumeQueues, positions: Positions) -> None:
        self.queues = queues
        self.on_queue_error: Callable[[OSError], None] = _raise
        self._waiting: deque[tuple[int, int, Batch]] = deque()
        self._positions = positions
        self.dispatched_ms = 0
        self.on_arrival: OnArrival | None = None
        self.builders: list[BatchBuilder] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, end_offset: int, store_ms: int, batch: Batch) -> None:
        """A batch has been written up to `end_offset`."""
        self._waiting.append((end_offset, store_ms, batch))

    def dispatch(self) -> None:
        """Make visible what is confirmed."""
        positions, waiting = self._positions, self._waiting
        upto = positions.visible_limit
        while waiting and waiting[0][0] <= upto:
            end_offset, store_ms, batch = waiting.popleft()
            full: list[ConsumeQueue] = []
            watched: dict[ConsumeQueue, list[int]] = {}
            show_entries(batch[2], self.queues.dirty, TAIL_SIZE_MAX, full, watched)
            self.queues.entries += len(batch[2])
            if full:
                self._write_full(full)
            if watched and self.on_arrival is not None:  # Once a queue.
                for queue, tags_codes in watched.items():
                    self.on_arrival(queue, tags_codes)
            positions.dispatched_to(end_offset)
            self.dispatched_ms = store_ms
            for build in self.builders:
                build(batch, store_ms)

    def _write_full(self, full: list[ConsumeQueue]) -> None:
        try:
            self.queues.write_tails(full)
        except OSError as error:
            self.on_queue_error(error)


def _raise(error: OSError) -> None:
    raise error
