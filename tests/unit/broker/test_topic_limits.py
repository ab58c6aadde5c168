"""Which messages a topic's limits keep."""

from __future__ import annotations

import pytest

from cometmq.broker.topic_limits import Limits, first_kept, limited_topics, limits_of
from cometmq.model.topic import TopicConfig
from tests.support.store_puts import put, settle, store_with

HOUR_S = 3600


@pytest.mark.parametrize(
    ("limits", "first"),
    [
        (Limits(None, 4), 6),
        (Limits(None, 100), 0),
        (Limits(3, None), 7),
        (Limits(3, 1), 9),
        (Limits(100, None), 0),
        (Limits(1, None), 9),
    ],
)
def test_age_and_number_both_count(limits, first):
    store, _, clock = store_with()
    for number in range(10):  # One an hour; the last one is an hour old.
        put(store, b"%d" % number)
        clock.turn(HOUR_S)
    settle(store, clock)
    queue = store.queue("orders", 0)
    assert queue is not None
    now_ms = clock.now_ms() - 40_000  # What `settle` took.
    assert first_kept(store, queue, limits, now_ms) == first
    queue.hide_before(first)
    assert store.get("orders", 0, 0).next_offset == (10 if first == 0 else first)


def test_topics_without_limits_and_with_senseless_ones_have_none():
    assert limits_of({"cleanup.policy": "DELETE"}) is None
    topics = {
        "plain": TopicConfig("plain"),
        "odd": TopicConfig("odd", attributes={"retention.count": "many"}),
        "short": TopicConfig("short", attributes={"retention.hours": "2"}),
    }
    assert limited_topics(topics) == [("short", Limits(2, None))]
