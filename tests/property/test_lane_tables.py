"""Tables of lanes: found is the lane that was kept last, of any queue of very many topics, and none of a forgotten one."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq import kernel
from cometmq.kernel.rows import Lane
from cometmq.store.appender import encode_topic_block
from tests.support.send_frames import Sent, frame_of

pytestmark = pytest.mark.compiled

LIMITS = 1 << 20, 1 << 24, 1 << 16, 9
FIELDS = {"a": "p", "f": "0", "g": "1700000000000", "h": "0", "i": "UNIQ_KEY\1A1\2"}
TOPICS = st.sampled_from(["T", "Orders", "Bills", "B" * 127, "T" * 127, "T" * 128])
QUEUES = st.sampled_from([0, 1, 7, 8, 15, 40, 63, 64, 255, 256, 70_000])


def keep(table: Any, topic: str, queue_id: int, number: int) -> None:
    """Have a queue with this number found."""
    block = encode_topic_block(topic)
    table.keep(topic, queue_id, Lane(kernel.QueueEnd(number), block, "", 0, block))


def frame_to(topic: str, queue_id: int) -> bytes:
    return frame_of(Sent(310, 0, 1, {**FIELDS, "b": topic, "e": str(queue_id)}, b"x"), "json")


def found(table: Any, wanted: list[tuple[str, int]]) -> list[int]:
    """The queues of the lanes that are found, up to the first send that has none, and where that begins."""
    batch: Any = kernel.SendBatch(b"")
    data = b"".join(frame_to(*each) for each in wanted)
    end = kernel.take_sends(batch, data, 0, len(wanted), bytes(8), table, LIMITS)
    assert batch.count == batch.request_count == len(batch.puts())
    return [*(put[0].queue_id for put in batch.puts()), end]


def test_each_of_very_many_lanes_is_found_until_its_topic_is_forgotten():
    table: Any = kernel.LaneTable()
    places = [(f"T{number % 999}", number // 999) for number in range(9990)]
    for number, (topic, queue_id) in enumerate(places):
        keep(table, topic, queue_id, number)
    assert found(table, places)[:-1] == [*range(9990)]
    for topic, _ in places[:999:2]:
        table.forget(topic)
    assert all(len(found(table, [place])) == 1 for place in places[:999:2])
    assert found(table, places[1:999:2])[:-1] == [*range(1, 999, 2)]
    table.clear()
    assert found(table, places) == [0]


@given(
    st.lists(st.tuples(st.sampled_from(["keep"] * 9 + ["forget", "clear"]), TOPICS, QUEUES), max_size=200),
    st.lists(st.tuples(TOPICS, QUEUES), max_size=80),
)  # fmt: skip
def test_a_table_finds_what_a_dict_would(changes, wanted):
    table: Any = kernel.LaneTable()
    kept: dict[tuple[str, int], int] = {}
    for number, (change, topic, queue_id) in enumerate(changes):
        if change == "keep":
            keep(table, topic, queue_id, number)
            kept[topic, queue_id] = number
        elif change == "forget":
            table.forget(topic)
            kept = {place: queue for place, queue in kept.items() if place[0] != topic}
        else:
            table.clear()
            kept.clear()
    for each in wanted:
        assert found(table, [each])[:-1] == ([kept[each]] if each in kept else [])
    known = next((index for index, each in enumerate(wanted) if each not in kept), len(wanted))
    assert found(table, wanted)[:-1] == [kept[each] for each in wanted[:known]]


def test_rows_hold_their_lanes_as_long_as_their_batch_lives():
    table: Any = kernel.LaneTable()
    lane = Lane(kernel.QueueEnd(0), b"\1T", "", 0, b"\1T")
    batch: Any = kernel.SendBatch(b"")
    table.keep("T", 0, lane)
    before = sys.getrefcount(lane)
    data = b"".join(frame_to("T", number) for number in (0, 0, 0, 1, 0))
    assert kernel.take_sends(batch, data, 0, 9, bytes(8), table, LIMITS) == len(data) * 3 // 5
    assert sys.getrefcount(lane) == before + 3
    del batch
    assert sys.getrefcount(lane) == before
    table.forget("T")
    assert sys.getrefcount(lane) == before - 1


def test_a_table_takes_lanes_alone():
    table: Any = kernel.LaneTable()
    wrong: tuple[Any, ...] = ["no lane"], ("queue", "no bytes")
    for lane in wrong:
        with pytest.raises(TypeError, match="lane"):
            table.keep("T", 0, lane)
