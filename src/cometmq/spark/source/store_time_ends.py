"""Ends limited micro-batches at about one store time in all queues.

A share of each queue by its length reads queues unevenly in time: of a backlog a short queue's
newest messages come beside a long queue's oldest, Spark's watermark follows the newest, and what
the long queue brings later counts as late and is dropped. Ends at one store time give an
aggregation what a reader that was always up to date would have given it.

The search asks the brokers by time, all queues at once, and looks at no message but the first of
each queue. It goes from the time of the last batch in growing steps until too much would come,
then halves and interpolates between both.
"""

from collections.abc import Sequence
from typing import NamedTuple

from cometmq.client import PullStatus
from cometmq.offline.columns.window import RecordWindow, record_starts
from cometmq.spark.source.cluster import PullPlan, SourceCluster, all_known
from cometmq.spark.source.offsets import Offsets
from cometmq.spark.source.planning import PlannedRange, share_out

# A batch of so much of its limit is large enough; each further question is a round trip.
FULL_ENOUGH = 0.95
# Questions for one batch, whatever times its messages have; four or fewer are enough as a rule.
QUESTIONS_MAX = 64
# So many of them may guess that messages come evenly; the others halve, which ends for certain.
GUESSES_MAX = 4
FIRST_STEP_MS = 1000
STEP_GROWTH = 4


class TimeCut(NamedTuple):
    """A store time, ms since 1970, and where the queues end then.

    Attributes:
        at_ms: the time.
        ends: offsets, each within what waits in its queue.
        rows: messages before them.
    """

    at_ms: int
    ends: Offsets
    rows: int


class StoreTimeEnds:
    """Chooses the ends of micro-batches, one after the other."""

    def __init__(self) -> None:
        self._at_ms = 0  # The time of the last batch,
        self._step_ms = FIRST_STEP_MS  # how far it went,
        self._ends: Offsets = {}  # and where it ended.

    def choose(
        self, waiting: Sequence[PlannedRange], rows_max: int | None, cluster: SourceCluster
    ) -> Offsets:
        """Choose the end of each queue so that about `rows_max` messages come in all.

        Messages of one ms that are more than that are shared out by what waits of them. None: all
        that waits.

        Raises:
            NetError, BrokerNotFound: a broker cannot be asked.
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
        """A time at which nothing that waits was stored yet."""
        if self._at_ms and all(
            self._ends.get(each.queue, -1) == each.start for each in waiting
        ):
            return self._at_ms
        self._at_ms, self._step_ms = 0, FIRST_STEP_MS
        asked = [(each.queue, each.start, each.start + 1) for each in waiting]
        pulls = cluster.first_pulls(asked, PullPlan(rows=1, depth=1))
        found = [each.body for each in pulls if each and each.status is PullStatus.FOUND]
        stored = [RecordWindow(body, record_starts(body)).stored_ms() for body in found]
        return min((int(times[0]) for times in stored), default=0)

    def _between(
        self,
        waiting: Sequence[PlannedRange],
        low: TimeCut,
        rows_max: int,
        cluster: SourceCluster,
    ) -> tuple[TimeCut, TimeCut]:
        """Two times: before the first at most `rows_max` messages were stored, before the second more."""
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
    """A time between both: in the middle, or where so many messages would be if they came evenly."""
    apart = high.at_ms - low.at_ms
    if is_halved:
        return low.at_ms + apart // 2
    even = low.at_ms + apart * (rows_max - low.rows) // (high.rows - low.rows)
    return min(max(even, low.at_ms + 1), high.at_ms - 1)


def _filled(low: TimeCut, high: TimeCut, rows_max: int) -> Offsets:
    """The ends of `low`, and of what lies between both a share by its length."""
    rest = [
        PlannedRange(queue, start, high.ends[queue])
        for queue, start in low.ends.items()
        if high.ends[queue] > start
    ]
    return low.ends | share_out(rest, rows_max - low.rows)
