"""Lanes share what is the same for all of them: 80,000 would otherwise not stay in any cache."""

from __future__ import annotations

import pytest

from cometmq.broker.counters.counters import Counters
from cometmq.broker.tables.lanes import Lane, Lanes
from cometmq.kernel import SendBatch, take_sends
from cometmq.model.topic import TopicConfig
from cometmq.store.batch import Columns
from tests.support.hand_clock import HandClock
from tests.support.send_frames import Sent, frame_of
from tests.support.store_puts import store_with


def open_all(lanes: Lanes, topics: list[str], queues: int) -> dict[tuple[str, int], Lane]:
    return {
        (topic, number): lanes.open(TopicConfig(topic), number, is_kept=True)
        for topic in topics
        for number in range(queues)
    }


def test_queues_of_a_topic_have_one_topic_block_and_queues_of_one_number_one_answer():
    store, _, _ = store_with()
    opened = open_all(
        Lanes(store, region="r", is_trace_on=True, counters=Counters(HandClock())),
        ["one", "two"],
        2,
    )
    assert opened["one", 0].topic_block is opened["one", 1].topic_block
    assert opened["one", 0].topic_block != opened["two", 0].topic_block
    assert opened["one", 1].answer_start is opened["two", 1].answer_start
    assert '"queueId":"1"' in opened["one", 1].answer_start
    assert len({lane.queue for lane in opened.values()}) == len(opened)


def test_a_forgotten_topic_gets_lanes_anew():
    store, _, _ = store_with()
    lanes = Lanes(store, region="r", is_trace_on=True, counters=Counters(HandClock()))
    opened = open_all(lanes, ["one", "two"], 2)
    lanes.forget("one")
    assert lanes.open(TopicConfig("two"), 1, is_kept=True) is opened["two", 1]
    assert lanes.open(TopicConfig("one"), 1, is_kept=True) is not opened["one", 1]


@pytest.mark.compiled
def test_sends_to_a_forgotten_topic_find_no_lane():
    store, _, _ = store_with()
    lanes = Lanes(store, region="r", is_trace_on=True, counters=Counters(HandClock()))
    open_all(lanes, ["one", "two"], 2)
    assert is_taken(lanes, "one")
    lanes.forget("one")
    assert (is_taken(lanes, "one"), is_taken(lanes, "two")) == (False, True)
    open_all(lanes, ["one"], 2)
    assert is_taken(lanes, "one")
    lanes.forget_all()
    assert not is_taken(lanes, "two")


def is_taken(lanes: Lanes, topic: str) -> bool:
    """Whether a plain send to a topic is taken as columns."""
    fields = {
        "a": "p",
        "b": topic,
        "e": "1",
        "f": "0",
        "g": "1",
        "h": "0",
        "i": "UNIQ_KEY\1A\2",
    }
    frame = frame_of(Sent(310, 0, 1, fields, b"x"), "json")
    limits = 1 << 20, 1 << 24, 1 << 16, 9
    batch: Columns = SendBatch(b"")
    return take_sends(batch, frame, 0, 1, bytes(8), lanes.straight, limits) > 0
