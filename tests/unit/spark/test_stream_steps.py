"""A query killed between any two steps of its micro-batches: each message in exactly one batch.

Spark's engine is played here as MicroBatchExecution of Spark 4.3 does it: plan, log the offsets, read,
write, log the commit, tell the source; after a death a new reader goes on from the two logs alone. The
sink keeps one result for each batch, as a file sink does. The logs hold text, as Spark's do.
"""

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.spark.schema import message_schema
from cometmq.spark.source import stream
from cometmq.spark.source.settings import SourceSettings
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
