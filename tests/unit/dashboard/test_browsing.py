"""Which page holds which messages: each exactly one, the newest of each queue first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cometmq import MessageQueue
from cometmq.dashboard.browsing import QueueSlice, slices_of_page

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
