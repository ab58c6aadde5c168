"""A query killed between any two steps of its micro-batches: each message in exactly one batch.

Spark's engine is played here as MicroBatchExecution of Spark 4.3 does it: plan, log the offsets, read,
write, log the commit, tell the source; after a death a new reader goes on from the two logs alone. The
sink keeps one result for each batch, as a file sink does. The logs hold text, as Spark's do.
"""

import json
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cometmq.model.queue import MessageQueue
from cometmq.spark.schema import message_schema
from cometmq.spark.source import stream
from cometmq.spark.source.planning import PlannedRange, between
from cometmq.spark.source.settings import SourceSettings
from cometmq.spark.source.store_time_ends import FULL_ENOUGH, QUESTIONS_MAX, StoreTimeEnds
from cometmq.spark.source.stream import RocketMQStreamReader
from tests.support.memory_cluster import MemoryCluster

STEPS = ("planned", "logged", "read", "written", "committed")
QUESTIONS = ("queues", "brokers", "max_offsets", "min_offsets", "mean_sizes")
COLUMNS = ["brokerName", "queueId", "queueOffset"]
Rows = list[tuple[str, int, int]]


class Killed(Exception):
    """The driver dies here."""


@dataclass
class Engine:
    """Spark's part: what is durable, and one driver after the other."""

    options: dict[str, str]
    offsets: list[str] = field(default_factory=list)  # The end of each batch, as text.
    commits: int = 0  # How many batches are committed.
    results: dict[int, Rows] = field(default_factory=dict)
    read: dict[int, Rows] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        given = {
            "nameserver": "x:1",
            "subscribe": "t",
            "minRecordsPerTask": "3",
            **self.options,
        }
        parsed = SourceSettings.parse(given, is_stream=True)
        self.reader = RocketMQStreamReader(parsed, message_schema(COLUMNS))
        self.start = self._text(self.reader.initialOffset())

    def trigger(self, dies_after: str = "") -> bool:
        """One micro-batch; whether there was one.

        Raises:
            Killed: after the step where it was to die.
        """
        batch = self.commits
        if batch == len(self.offsets):
            start = self.offsets[-1] if self.offsets else self.start
            limit = self.reader.getDefaultReadLimit()
            end = self._text(self.reader.latestOffset(json.loads(start), limit))
            self._die("planned", dies_after)
            if end == start:
                return False
            self.offsets.append(end)
        self._die("logged", dies_after)
        rows = self._rows(batch)
        assert self.read.setdefault(batch, rows) == rows, "a batch that runs again is the same"
        self._die("read", dies_after)
        self.results[batch] = rows
        self._die("written", dies_after)
        self.commits += 1
        self._die("committed", dies_after)
        self.reader.commit(json.loads(self.offsets[batch]))
        return True

    def _rows(self, batch: int) -> Rows:
        start = self.offsets[batch - 1] if batch else self.start
        tasks = self.reader.partitions(json.loads(start), json.loads(self.offsets[batch]))
        return [
            (row["brokerName"], row["queueId"], row["queueOffset"])
            for task in tasks
            for found in self.reader.read(task)
            for row in found.to_pylist()
        ]

    def _die(self, step: str, dies_after: str) -> None:
        if step == dies_after:
            self.restart()
            raise Killed

    @staticmethod
    def _text(offset: Any) -> str:
        return json.dumps(offset)


events = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 2), st.integers(1, 9)),
    st.tuples(st.just("kill"), st.sampled_from(STEPS)),
    st.just(("trigger",)),
    st.just(("add a queue",)),
    st.tuples(st.just("goes or comes back"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("nobody answers"), st.sets(st.sampled_from(QUESTIONS), min_size=1)),
)


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "earliest"},
        {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "4"},
        {"startingOffsets": "latest", "maxOffsetsPerTrigger": "4", "commitOffsets": "batch"},
        {"startingOffsets": "latest", "maxBytesPerTrigger": "500"},
    ],
)
@settings(max_examples=50, deadline=None)
@given(happened=st.lists(events, max_size=25))
def test_each_message_is_in_exactly_one_batch_wherever_the_driver_dies(options, happened):
    cluster = MemoryCluster()
    queues = [cluster.add("t", broker, 0, next=3) for broker in ("a", "b")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "source_cluster", lambda _settings: cluster)
        engine = Engine(dict(options))
        while not engine.trigger() and not engine.offsets:
            pass  # The first plan fixes where "latest" is.
        begins = {"earliest": 0, "latest": 3}[options["startingOffsets"]]
        for event in happened:
            match event:
                case ("send", number, count):
                    cluster.queues_by_name[queues[number % len(queues)]].next += count
                case ("add a queue",):
                    queues.append(cluster.add("t", "a", len(queues), next=2))
                case ("goes or comes back", broker):
                    cluster.down ^= {broker}
                case ("kill", step) if not cluster.down:
                    with suppress(Killed):
                        engine.trigger(dies_after=step)
                case ("trigger",):
                    # Planning goes on while a broker is away; what is there already is read.
                    with suppress(Killed):
                        engine.trigger(dies_after="planned" if cluster.down else "")
                case ("nobody answers", questions):
                    cluster.vanishing = questions
                    with suppress(Killed):
                        engine.trigger(dies_after="planned")
                    cluster.vanishing = set()
        cluster.down.clear()
        while engine.trigger():
            pass
    found = sorted(row for rows in engine.results.values() for row in rows)
    expected = sorted(
        (queue.broker_name, queue.queue_id, offset)
        for number, queue in enumerate(queues)
        for offset in range(begins if number < 2 else 0, cluster.queues_by_name[queue].next)
    )
    assert found == expected


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
