"""End limited micro-batches at about the same store time in all queues.

A share of each queue by its length reads queues unevenly in time. In a backlog, the newest messages of a
short queue would come with the oldest of a long one; Spark's watermark follows the newest, so later messages
of the long queue may count as late and be dropped.

The search queries the brokers by time, for all queues at once, and reads at most the first waiting message of
each queue. It starts at the time of the last batch or of these messages, in growing steps until the batch
would be too large, then narrows the time by interpolation and bisection.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cometmq.connect import PullStatus
from cometmq.model.queue import MessageQueue
from cometmq.offline.columns.window import RecordWindow, record_starts
from cometmq.spark.source.cluster import PullPlan, SourceCluster, all_known
from cometmq.spark.source.offsets import Offsets
from cometmq.spark.source.planning import PlannedRange, share_out

# A batch filled to this share of its limit is accepted, because each further query is a round trip.
FULL_ENOUGH = 0.95
# Maximum number of queries for one batch; usually four or fewer suffice.
QUESTIONS_MAX = 64
# Maximum number of interpolating queries, which assume an even rate; bisection always terminates.
GUESSES_MAX = 4
FIRST_STEP_MS = 1000
STEP_GROWTH = 4
# Messages requested at once; one may be 4 MB long.
_ASKED_MAX = 256


class TimeCut(NamedTuple):
    """A store time (ms since 1970), each queue's end offset, usually at it, and the number of waiting messages before these."""

    at_ms: int
    ends: Offsets
    rows: int


class StoreTimeEnds:
    """Chooser of the ends of successive micro-batches, at about the same store time in all queues."""

    def __init__(self) -> None:
        self._at_ms = 0  # End of the last batch as a store time,
        self._step_ms = FIRST_STEP_MS  # the time it spanned,
        self._ends: Offsets = {}  # and its end offsets.

    def choose(
        self, waiting: Sequence[PlannedRange], rows_max: int | None, cluster: SourceCluster
    ) -> Offsets:
        """Return each queue's end offset in a micro-batch of about `rows_max` messages (None: of all waiting ones).

        Usually fills the batch to 95 % or more. If the messages of the last ms do not all fit, each queue that has some
        gets a share of them.

        Raises:
            NetError, BrokerNotFound: A broker cannot be reached.
            CometError: A broker refuses, its answer is invalid, or a topic has no route.
        """
        everything = {each.queue: each.end for each in waiting}
        if rows_max is None or sum(each.rows for each in waiting) <= rows_max:
            self._ends = self._ends | everything
            return everything
        low = TimeCut(
            self._begin_ms(waiting, cluster), {each.queue: each.start for each in waiting}, 0
        )
        low, high = self._between(waiting, low, rows_max, cluster)
        self._step_ms = max(low.at_ms - self._at_ms, 1) if self._at_ms else FIRST_STEP_MS
        self._at_ms = low.at_ms
        chosen = (
            low.ends if low.rows >= rows_max * FULL_ENOUGH else _filled(low, high, rows_max)
        )
        self._ends = self._ends | chosen
        return chosen

    def _begin_ms(self, waiting: Sequence[PlannedRange], cluster: SourceCluster) -> int:
        """Return the time (ms since 1970) at which the search begins; 0 if it is unknown."""
        if self._at_ms and all(
            self._ends.get(each.queue, -1) == each.start for each in waiting
        ):
            return self._at_ms
        self._at_ms, self._step_ms = 0, FIRST_STEP_MS
        stored = stored_before({each.queue: each.start + 1 for each in waiting}, cluster)
        return min(stored.values(), default=0)

    def _between(
        self,
        waiting: Sequence[PlannedRange],
        low: TimeCut,
        rows_max: int,
        cluster: SourceCluster,
    ) -> tuple[TimeCut, TimeCut]:
        """Return two cuts: one with at most `rows_max` messages, and another with more or all waiting messages."""
        high: TimeCut | None = None
        step, narrowed = self._step_ms, 0
        for _ in range(QUESTIONS_MAX):
            if low.rows >= rows_max * FULL_ENOUGH or (high and high.at_ms - low.at_ms <= 1):
                break
            if high is None:
                at_ms, step = low.at_ms + step, step * STEP_GROWTH
            else:
                is_guess = narrowed < 2 * GUESSES_MAX and narrowed % 2 == 0
                at_ms = _middle(low, high, rows_max, is_halved=not is_guess)
                narrowed += 1
            cut = _cut(waiting, at_ms, cluster)
            if cut.rows <= rows_max:
                low = cut
            else:
                high = cut
        whole = {each.queue: each.end for each in waiting}
        return low, high or TimeCut(low.at_ms, whole, sum(each.rows for each in waiting))


def _cut(waiting: Sequence[PlannedRange], at_ms: int, cluster: SourceCluster) -> TimeCut:
    found = all_known(cluster.offsets_by_time({each.queue: at_ms for each in waiting}))
    ends = {each.queue: min(max(found[each.queue], each.start), each.end) for each in waiting}
    return TimeCut(at_ms, ends, sum(ends[each.queue] - each.start for each in waiting))


def _middle(low: TimeCut, high: TimeCut, rows_max: int, *, is_halved: bool) -> int:
    """Return a time (ms) between both cuts: the middle, or where interpolation expects `rows_max` messages."""
    apart = high.at_ms - low.at_ms
    if is_halved:
        return low.at_ms + apart // 2
    even = low.at_ms + apart * (rows_max - low.rows) // (high.rows - low.rows)
    return min(max(even, low.at_ms + 1), high.at_ms - 1)


def _filled(low: TimeCut, high: TimeCut, rows_max: int) -> Offsets:
    """Return the ends of `low`, extended by shares of the messages between both cuts."""
    rest = [
        PlannedRange(queue, start, high.ends[queue])
        for queue, start in low.ends.items()
        if high.ends[queue] > start
    ]
    return low.ends | share_out(rest, rows_max - low.rows)


def stored_before(ends: Mapping[MessageQueue, int], cluster: SourceCluster) -> Offsets:
    """Return by queue the store time (ms since 1970) of the message before its end, if its broker returns one.

    It tells a queue from one that replaced it: a recreated topic, or a broker with an empty disk. Offsets need not show
    that, because the new queue may hold more messages than were read of the old one.
    """
    found: Offsets = {}
    asked = [(queue, end - 1, end) for queue, end in sorted(ends.items()) if end > 0]
    for first in range(0, len(asked), _ASKED_MAX):
        some = asked[first : first + _ASKED_MAX]
        pulls = cluster.first_pulls(some, PullPlan(rows=1, depth=1))
        for (queue, _, _), pull in zip(some, pulls, strict=True):
            if pull and pull.status is PullStatus.FOUND:
                window = RecordWindow(pull.body, record_starts(pull.body))
                found[queue] = int(window.stored_ms()[0])
    return found
