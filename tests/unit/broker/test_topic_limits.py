"""Which messages a topic's limits keep."""

from __future__ import annotations

import random

import pytest

from cometmq.broker.tables.byte_quota import ByteQuotas
from cometmq.broker.tables.topic_limits import (
    TopicLimits,
    first_kept,
    limited_topics,
    limits_of,
)
from cometmq.codec.queue_entry import gap_entries
from cometmq.model.topic import TopicConfig
from tests.support.store_puts import put, queue_of, settle, store_with

HOUR_S = 3600
RECORD = 102  # Bytes of each record: 91, a body of 1, a topic of 6, properties of 4.


@pytest.mark.parametrize(
    ("limits", "first"),
    [
        (TopicLimits(None, 4), 6),
        (TopicLimits(None, 100), 0),
        (TopicLimits(3, None), 7),
        (TopicLimits(3, 1), 9),
        (TopicLimits(100, None), 0),
        (TopicLimits(1, None), 9),
        (TopicLimits(None, None, 4 * RECORD), 6),
        (TopicLimits(None, None, 4 * RECORD - 1), 7),
        (TopicLimits(None, None, 1), 9),  # The newest stays.
        (TopicLimits(None, 2, 4 * RECORD), 8),
        (TopicLimits(None, None, 1 << 40), 0),
    ],
)
def test_age_number_and_bytes_all_count(limits, first):
    store, _, clock = store_with()
    for number in range(10):  # One an hour; the last one is an hour old.
        put(store, b"%d" % number)
        clock.turn(HOUR_S)
    settle(store, clock)
    queue = queue_of(store)
    now_ms = clock.now_ms() - 40_000  # What `settle` took.
    kept = first_kept(store, queue, limits, now_ms=now_ms, quotas=ByteQuotas(store))
    assert kept == first
    queue.hide_before(first)
    assert store.get("orders", 0, 0).next_offset == (10 if first == 0 else first)


def test_topics_without_limits_and_with_senseless_ones_have_none():
    assert limits_of({"cleanup.policy": "DELETE"}) is None
    topics = {
        "plain": TopicConfig("plain"),
        "odd": TopicConfig("odd", attributes={"retention.count": "many"}),
        "short": TopicConfig("short", attributes={"retention.hours": "2"}),
    }
    assert limited_topics(topics) == [("short", TopicLimits(2, None))]
    assert limits_of({"retention.bytes": "1000"}) == TopicLimits(None, None, 1000)


def test_a_byte_quota_follows_what_comes_and_what_goes():
    store, disk, clock = store_with()
    quotas = ByteQuotas(store)
    chance = random.Random(4)
    sizes: list[int] = []
    put(store, b"x")
    sizes.append(RECORD)
    queue = queue_of(store)
    for _ in range(30):
        for _ in range(chance.randrange(40)):
            body = b"x" * chance.randrange(200)
            put(store, body)
            sizes.append(RECORD - 1 + len(body))
        settle(store, clock)
        if chance.random() < 0.3:  # Something else hides more than the quota does.
            queue.hide_before(queue.min_offset + chance.randrange(20))
        most = chance.randrange(1, 6_000)
        first = quotas.first_kept(queue, most)
        last = len(sizes) - 1
        wanted = queue.min_offset
        while wanted < last and sum(sizes[wanted:]) > most:
            wanted += 1
        assert first == min(wanted, queue.max_offset)
        queue.hide_before(first)
    reads = disk.calls["pread"]
    assert quotas.first_kept(queue, 6_000) == queue.min_offset
    assert disk.calls["pread"] == reads  # Nothing has changed, so nothing is read.


def test_what_is_lost_in_a_queue_takes_nothing():
    store, _, clock = store_with()
    put(store, b"1", b"2")
    queue = queue_of(store)
    queue.tail[20:40] = gap_entries(1, "orders", 0, RECORD)
    put(store, b"3")
    settle(store, clock)
    assert ByteQuotas(store).first_kept(queue, 2 * RECORD) == 0


def test_a_byte_quota_forgets_what_a_truncation_takes_back():
    store, _, clock = store_with(*[b"x"] * 10)
    settle(store, clock)
    quotas = ByteQuotas(store)
    queue = queue_of(store)
    queue.hide_before(quotas.first_kept(queue, 4 * RECORD))
    assert queue.min_offset == 6
    [entry] = store.entries(queue, 7, 1)
    store.truncate(entry.physical_offset)
    put(store, *[b"x" * (RECORD + 1)] * 5)  # Twice as long, in the places of the others.
    assert quotas.first_kept(queue, 4 * RECORD) == 10
