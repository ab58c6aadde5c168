"""Which page holds which messages: each exactly one, the newest of each queue first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cometmq import MessageQueue
from cometmq.admin import BrokerState, Trace, TraceKind
from cometmq.codec.trace import TraceOutcome
from cometmq.dashboard.browsing import QueueSlice, slices_of_page
from cometmq.dashboard.pages.traces import spans_of
from cometmq.dashboard.settings import DashboardSettings
from cometmq.dashboard.watcher import BROKERS_MAX, Watcher
from tests.support.hand_clock import HandClock

RANGES = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 40)), max_size=8)


def slices_of(ranges: list[tuple[int, int]]) -> list[QueueSlice]:
    return [
        QueueSlice(MessageQueue("t", "b", number), begin, begin + size)
        for number, (begin, size) in enumerate(ranges)
    ]


@given(RANGES, st.integers(1, 25))
def test_each_message_stands_on_exactly_one_page(ranges, rows):
    slices = slices_of(ranges)
    everything = [
        (each.queue, offset) for each in slices for offset in range(each.begin, each.end)
    ]
    seen = []
    for start in range(0, len(everything), rows):
        page = slices_of_page(slices, start, rows)
        found = [
            (each.queue, offset) for each in page for offset in range(each.begin, each.end)
        ]
        assert len(found) == min(rows, len(everything) - start)
        seen += found
    assert sorted(seen) == sorted(everything)


@given(RANGES)
def test_the_newest_of_each_queue_come_first(ranges):
    slices = slices_of(ranges)
    filled = [each for each in slices if each.end > each.begin]
    first = slices_of_page(slices, 0, len(filled))
    assert [(each.queue, each.end) for each in first] == [
        (each.queue, each.end) for each in filled
    ]


def test_a_place_in_a_million_is_arithmetic():
    slices = slices_of([(0, 1_000_000), (5, 3), (0, 700_000)])
    (last,) = slices_of_page(slices, 1_700_002, 20)
    assert (last.queue.queue_id, last.begin, last.end) == (0, 0, 1)
    assert slices_of_page(slices, 1_700_003, 20) == []
    assert slices_of_page([], 0, 20) == []


class Cluster:
    """What an admin says of brokers: their names, in order."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.polls = 0

    @property
    def admin(self) -> Cluster:
        return self

    @property
    def brokers(self) -> Cluster:
        return self

    async def list(self) -> list[BrokerState]:
        self.polls += 1
        runtime = {"polls": str(self.polls)}
        return [BrokerState("c", name, 0, "127.0.0.1:1", True, runtime) for name in self.names]


async def test_a_new_broker_pushes_none_out_that_would_look_alive_for_ever(tmp_path):
    many = [f"b{number:03d}" for number in range(BROKERS_MAX + 5)]
    cluster = Cluster(*many)
    watcher = Watcher(cluster, HandClock(), DashboardSettings(data_dir=tmp_path))  # type: ignore[arg-type]
    await watcher.look()
    cluster.names = ["a-new-one", *many]
    await watcher.look()
    kept = watcher.brokers()
    assert [each.state.broker_name for each in kept] == many[:BROKERS_MAX]
    assert {each.told("polls") for each in kept} == {"2"}
    cluster.names.remove(many[0])
    await watcher.look()
    names = [each.state.broker_name for each in watcher.brokers()]
    assert names == ["a-new-one", *many[:BROKERS_MAX]], "the one that left is shown as away"
    assert [each.what.split()[2] for each in watcher.troubles()] == [many[0]]


PUB = Trace(kind=TraceKind.PUB, message_id="m", time_ms=1000, group="p", topic="t", took_ms=20)
BEFORE = Trace(
    kind=TraceKind.SUB_BEFORE, message_id="m", time_ms=1100, group="c", request_id="r", tries=2
)
AFTER = Trace(
    kind=TraceKind.SUB_AFTER,
    message_id="m",
    request_id="r",
    took_ms=100,
    is_success=False,
    outcome=TraceOutcome.EXCEPTION,
)


def test_a_send_and_a_consumption_with_its_end():
    sent, consumed = spans_of([AFTER, BEFORE, PUB])
    assert (sent.what, sent.group, sent.took_ms, sent.outcome, sent.is_well) == (
        "sent",
        "p",
        20,
        "stored",
        True,
    )
    assert (consumed.what, consumed.tries, consumed.outcome, consumed.is_well) == (
        "consumed",
        2,
        "exception",
        False,
    )
    assert (sent.left, sent.width) == (0, 100)
    assert (consumed.left, consumed.width) == (500, 500)


def test_an_end_that_is_not_told_is_said():
    (consumed,) = spans_of([BEFORE])
    assert (consumed.took_ms, consumed.is_well, consumed.outcome) == (
        None,
        None,
        "its end was not traced",
    )
    assert spans_of([AFTER]) == []
    assert spans_of([]) == []


@given(
    st.lists(
        st.builds(
            Trace,
            kind=st.sampled_from(TraceKind),
            message_id=st.just("m"),
            time_ms=st.integers(-(2**63), 2**63 - 1),
            took_ms=st.integers(-(2**31), 2**31 - 1),
            request_id=st.sampled_from(["", "a", "b"]),
        ),
        max_size=8,
    )
)
def test_whatever_a_peer_traced_has_bars_that_fit(traces):
    for each in spans_of(traces):
        assert 0 <= each.left <= 1000
        assert each.width >= 8
