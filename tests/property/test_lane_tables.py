"""Tables of lanes: both kernels find the lane that was kept last, of any queue of very many topics, and none of a forgotten one."""

from __future__ import annotations

import shutil
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.kernel import columns, lane_table, queue_ends, taking
from cometmq.kernel.rows import Lane
from cometmq.store.appender import encode_topic_block
from tests.support.send_frames import Sent, frame_of

try:
    from tests.support import compiled_kernel as fast
except ImportError:
    # Without a compiler there is one kernel; with one, a twin that was not built is a fault.
    if shutil.which("cc") or shutil.which("gcc"):
        raise
    pytest.skip("no C compiler here, so no compiled kernel", allow_module_level=True)

LIMITS = 1 << 20, 1 << 24, 1 << 16, 9
FIELDS = {"a": "p", "f": "0", "g": "1700000000000", "h": "0", "i": "UNIQ_KEY\1A1\2"}
TOPICS = st.sampled_from(["T", "Orders", "Bills", "B" * 127, "T" * 127, "T" * 128])
QUEUES = st.sampled_from([0, 1, 7, 8, 15, 40, 63, 64, 255, 256, 70_000])


class Plain:
    """The plain kernel, by the names of the compiled one."""

    QueueEnd = queue_ends.QueueEnd
    LaneTable = lane_table.LaneTable
    SendBatch = columns.SendBatch
    take_sends = staticmethod(taking.take_sends)


def keep(kernel: Any, table: Any, topic: str, queue_id: int, number: int) -> None:
    """Have a queue with this number found."""
    table.keep(topic, queue_id, Lane(kernel.QueueEnd(number), encode_topic_block(topic), "", 0))


def frame_to(topic: str, queue_id: int) -> bytes:
    return frame_of(Sent(310, 0, 1, {**FIELDS, "b": topic, "e": str(queue_id)}, b"x"), "json")


def found(kernel: Any, table: Any, wanted: list[tuple[str, int]]) -> list[int]:
    """The queues of the lanes that are found, up to the first send that has none, and where that begins."""
    batch = kernel.SendBatch(b"")
    data = b"".join(frame_to(*each) for each in wanted)
    end = kernel.take_sends(batch, data, 0, len(wanted), bytes(8), table, LIMITS)
    assert batch.count == batch.request_count == len(batch.puts())
    return [*(put[0].queue_id for put in batch.puts()), end]


@pytest.mark.parametrize("kernel", [fast, Plain])
def test_each_of_very_many_lanes_is_found_until_its_topic_is_forgotten(kernel):
    table = kernel.LaneTable()
    places = [(f"T{number % 999}", number // 999) for number in range(9990)]
    for number, (topic, queue_id) in enumerate(places):
        keep(kernel, table, topic, queue_id, number)
    assert found(kernel, table, places)[:-1] == [*range(9990)]
    for topic, _ in places[:999:2]:
        table.forget(topic)
    assert all(len(found(kernel, table, [place])) == 1 for place in places[:999:2])
    assert found(kernel, table, places[1:999:2])[:-1] == [*range(1, 999, 2)]
    table.clear()
    assert found(kernel, table, places) == [0]


@given(
    st.lists(st.tuples(st.sampled_from(["keep"] * 9 + ["forget", "clear"]), TOPICS, QUEUES), max_size=200),
    st.lists(st.tuples(TOPICS, QUEUES), max_size=80),
)  # fmt: skip
def test_both_kernels_find_the_same_lanes(changes, wanted):
    kernels: tuple[Any, ...] = fast, Plain
    seen = []
    for kernel in kernels:
        table = kernel.LaneTable()
        for number, (change, topic, queue_id) in enumerate(changes):
            if change == "keep":
                keep(kernel, table, topic, queue_id, number)
            elif change == "forget":
                table.forget(topic)
            else:
                table.clear()
        alone = [found(kernel, table, [each]) for each in wanted]
        seen.append((alone, found(kernel, table, wanted)))
    assert seen[0] == seen[1]


def test_rows_hold_their_lanes_as_long_as_their_batch_lives():
    table: Any = fast.LaneTable()
    lane = Lane(fast.QueueEnd(0), b"\1T", "", 0)
    batch: Any = fast.SendBatch(b"")
    table.keep("T", 0, lane)
    before = sys.getrefcount(lane)
    data = b"".join(frame_to("T", number) for number in (0, 0, 0, 1, 0))
    assert fast.take_sends(batch, data, 0, 9, bytes(8), table, LIMITS) == len(data) * 3 // 5
    assert sys.getrefcount(lane) == before + 3
    del batch
    assert sys.getrefcount(lane) == before
    table.forget("T")
    assert sys.getrefcount(lane) == before - 1


def test_a_table_takes_lanes_alone():
    table: Any = fast.LaneTable()
    wrong: tuple[Any, ...] = ["no lane"], ("queue", "no bytes")
    for lane in wrong:
        with pytest.raises(TypeError, match="lane"):
            table.keep("T", 0, lane)
    no_table: Any = {}
    with pytest.raises(TypeError, match="LaneTable"):
        fast.take_sends(fast.SendBatch(b""), b"", 0, 1, bytes(8), no_table, LIMITS)
