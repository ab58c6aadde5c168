"""A limited micro-batch ends at one store time in all queues, and all of a backlog is read in that order."""

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from cometmq.model.queue import MessageQueue
from cometmq.spark.source.planning import PlannedRange, between
from cometmq.spark.source.store_time_ends import FULL_ENOUGH, QUESTIONS_MAX, StoreTimeEnds
from tests.support.memory_cluster import MemoryCluster

BEGUN_MS = 1_700_000_000_000


class Asked(MemoryCluster):
    """Counts the questions for times."""

    questions = 0

    def offsets_by_time(self, times_ms):
        self.questions += 1
        return super().offsets_by_time(times_ms)


def batches_of(cluster: MemoryCluster, rows_max: int) -> list[list[PlannedRange]]:
    """All micro-batches, from the beginning of each queue to its end."""
    chooser = StoreTimeEnds()
    states = cluster.queues_by_name
    starts = {queue: state.first for queue, state in states.items()}
    latest = {queue: state.next for queue, state in states.items()}
    batches = []
    while waiting := between(starts, latest):
        ends = chooser.choose(waiting, rows_max, cluster)
        batches.append(between(starts, ends))
        starts |= ends
    return batches


def times_of(cluster: MemoryCluster, each: PlannedRange) -> tuple[int, int]:
    """The store times of a range's first and last message."""
    state = cluster.queues_by_name[each.queue]
    at = (state.begun_ms + offset * state.ms_each for offset in (each.start, each.end - 1))
    return next(at), next(at)


queues: st.SearchStrategy[list[dict[str, int]]] = st.lists(
    st.builds(
        dict,
        next=st.integers(0, 3000),
        ms_each=st.integers(1, 5000),
        begun_ms=st.integers(BEGUN_MS, BEGUN_MS + 10_000_000),
    ),
    min_size=1,
    max_size=6,
)


@example(  # Hardly any message for minutes, and then one each ms.
    [
        {"next": 79, "ms_each": 3504, "begun_ms": BEGUN_MS},
        {"next": 210, "ms_each": 1, "begun_ms": BEGUN_MS + 273_078},
    ],
    44,
)
@given(queues, st.integers(10, 500))
def test_what_comes_later_was_stored_later(states, rows_max):
    cluster = Asked()
    for number, state in enumerate(states):
        cluster.add("t", queue=number, **state)
    batches = batches_of(cluster, rows_max)
    assert sum(each.rows for batch in batches for each in batch) == sum(
        state["next"] for state in states
    )
    for batch in batches:
        assert 1 <= sum(each.rows for each in batch) <= rows_max + len(states)
    for batch, after in pairwise(batches):
        last = max(times_of(cluster, each)[1] for each in batch)
        assert last <= min(times_of(cluster, each)[0] for each in after)
    assert cluster.questions <= QUESTIONS_MAX * len(batches)


def test_queues_of_unlike_length_and_age_are_read_in_order_of_time_with_few_questions():
    cluster = Asked()
    cluster.add("t", queue=0, next=90_000, ms_each=100, begun_ms=BEGUN_MS)
    cluster.add("t", queue=1, next=9_000, ms_each=1000, begun_ms=BEGUN_MS)
    cluster.add("t", queue=2, next=1_000, ms_each=50, begun_ms=BEGUN_MS + 8_900_000)
    batches = batches_of(cluster, 500)
    rows = [sum(each.rows for each in batch) for batch in batches]
    assert min(rows[:-1]) >= 500 * FULL_ENOUGH
    assert cluster.questions <= 4 * len(batches)
    # Of each queue's first messages none is asked for again while nothing new appears.
    assert cluster.asked_ahead == [3]


def test_messages_of_one_millisecond_beyond_the_limit_are_shared_out():
    cluster = Asked()
    for number, size in enumerate((4000, 1000)):
        cluster.add("t", queue=number, next=size, ms_each=0, begun_ms=BEGUN_MS)
    batches = batches_of(cluster, 500)
    assert [each.rows for each in batches[0]] == [400, 100]
    assert len(batches) == 10


def test_a_queue_that_appears_with_old_messages_is_read_first():
    cluster = Asked()
    new = cluster.add("t", queue=0, next=1000, ms_each=1000, begun_ms=BEGUN_MS)
    chooser = StoreTimeEnds()
    first = chooser.choose([PlannedRange(new, 0, 1000)], 400, cluster)
    assert 360 <= first[new] <= 400
    old = cluster.add("t", queue=1, next=1000, ms_each=10, begun_ms=BEGUN_MS - 1_000_000)
    waiting = [PlannedRange(new, first[new], 1000), PlannedRange(old, 0, 1000)]
    second = chooser.choose(waiting, 400, cluster)
    assert second[new] == first[new]
    assert 360 <= second[old] <= 400


def test_whose_first_message_cannot_be_read_waits_for_nobody():
    """It was deleted since the queue's end was asked for; its queue begins later."""
    cluster = Asked()
    queue = cluster.add("t", first=50, next=1000, ms_each=1000, begun_ms=BEGUN_MS)
    ends = StoreTimeEnds().choose([PlannedRange(queue, 0, 1000)], 300, cluster)
    assert 0 < ends[queue] <= 300


def test_what_does_not_reach_the_limit_is_taken_whole_without_a_question():
    cluster = Asked()
    queue = MessageQueue("t", "b", 0)
    assert StoreTimeEnds().choose([PlannedRange(queue, 3, 9)], 6, cluster) == {queue: 9}
    assert StoreTimeEnds().choose([PlannedRange(queue, 3, 9)], None, cluster) == {queue: 9}
    assert cluster.questions == 0
