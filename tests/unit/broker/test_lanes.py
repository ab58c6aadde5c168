"""Lanes share what is the same for all of them: 80,000 would otherwise not stay in any cache."""

from __future__ import annotations

import pytest

from cometmq.broker.counters.counters import Counters
from cometmq.broker.tables.lanes import Lane, Lanes
from cometmq.model.topic import TopicConfig
from tests.support.hand_clock import HandClock
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
    with pytest.raises(LookupError):
        lanes.straight.find("one", "1")
    assert lanes.straight.find("two", "1") is opened["two", 1]
    again = open_all(lanes, ["one"], 2)
    assert lanes.straight.find("one", "1") is again["one", 1]
