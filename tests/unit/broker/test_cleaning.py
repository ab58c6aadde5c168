"""A broker deletes what has expired, sends readers behind it, and hides what topics keep no longer."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from cometmq.broker.tables.byte_quota import ByteQuotas
from cometmq.broker.tables.topic_limits import (
    TopicLimits,
    first_kept,
    limited_topics,
    limits_of,
)
from cometmq.codec.queue_entry import gap_entries
from cometmq.codec.record import decode_records
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.topic import TopicConfig
from tests.support.request_fields import pull_fields, topic_fields
from tests.support.store_puts import put, queue_of, settle, store_with
from tests.unit.broker.conftest import eventually, serve
from tests.unit.broker.test_pulls import send

FILE = 16_384
BODY = b"x" * 3800  # Four fill a log file.
QUICK: dict[str, Any] = {
    "commitlog_file_size": FILE,
    "clean_interval_ms": 100,
    "delete_when": "",
    "delete_retry_ms": 1,
}


async def fill(served, count, topic="Orders"):
    for number in range(count):
        await served.send(b"%d " % number + BODY, topic, properties={"UNIQ_KEY": "K"})


def log_files(path: Path) -> list[Path]:
    return sorted((path / "commitlog").iterdir())


async def goes(served, path: Path, start: int) -> bool:
    """Ask for deletion; whether the log begins there now. A checkpoint must have come first."""
    await served.done(RequestCode.DELETE_EXPIRED_COMMITLOG)
    return int(log_files(path)[0].name) == start


async def make_topic(served, topic, attributes="", queues=1):
    fields = topic_fields(topic, queues, attributes=attributes)
    return await served.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


async def begins_at(served, offset):
    """Wait until who reads the topic `Short` from its start is sent there."""

    async def moved():
        pull = await served.ask(RequestCode.PULL_MESSAGE, pull_fields("Short", offset=0))
        return pull.fields["nextBeginOffset"] == offset

    await eventually(moved)


async def test_expired_files_go_when_asked_and_a_consumer_crosses_the_gap(tmp_path):
    store = tmp_path / "store"
    async with serve(store, **QUICK) as served:
        await fill(served, 16)
        for path in log_files(store)[:2]:
            os.utime(path, (1, 1))
        await eventually(lambda: goes(served, store, 2 * FILE))

        async def moved():
            pull = await served.ask(RequestCode.PULL_MESSAGE, pull_fields("Orders", offset=0))
            # The two files may go one after the other: at first the queue begins at 4.
            return pull if pull.fields.get("minOffset") == "8" else None

        answer = await eventually(moved)
        assert answer.code == ResponseCode.PULL_OFFSET_MOVED
        assert answer.fields["nextBeginOffset"] == "8"
        answer = await served.ask(RequestCode.PULL_MESSAGE, pull_fields("Orders", offset=8))
        assert [record.queue_offset for record in decode_records(answer.body)] == [
            *range(8, 16)
        ]
        least = await served.ask(
            RequestCode.GET_MIN_OFFSET, {"topic": "Orders", "queueId": "0"}
        )
        assert least.fields["offset"] == "8"
    async with serve(store, **QUICK) as served:
        answer = await served.ask(RequestCode.PULL_MESSAGE, pull_fields("Orders", offset=2))
        assert answer.fields["nextBeginOffset"] == "8"


async def test_nothing_goes_unasked_outside_the_hour(tmp_path):
    store = tmp_path / "store"
    async with serve(store, **QUICK) as served:
        await fill(served, 12)
        os.utime(log_files(store)[0], (1, 1))
        cleaner = served.broker._store.cleaner
        await eventually(lambda: cleaner._followed_to == 0)  # A whole round is over.
        assert int(log_files(store)[0].name) == 0


async def test_queues_of_deleted_topics_go_and_empty_directories_with_them(tmp_path):
    queues = tmp_path / "store" / "consumequeue"
    async with serve(tmp_path / "store", **QUICK) as served:
        await send(served, topic="Kept")
        (queues / "Leftover" / "0").mkdir(parents=True)
        (queues / "Empty").mkdir()
    async with serve(tmp_path / "store", **QUICK) as served:
        await served.done(RequestCode.CLEAN_UNUSED_TOPIC)
        assert not (queues / "Leftover").exists()
        assert not (queues / "Empty").exists()
        await served.done(RequestCode.PULL_MESSAGE, pull_fields("Kept"))


async def test_empty_queues_go_only_where_no_topic_reaches_them(tmp_path):
    store = tmp_path / "store"
    async with serve(store, **QUICK) as served:
        await make_topic(served, "Shrunk", queues=2)
        await send(served, 3, topic="Shrunk", queue_id=0)
        await send(served, 3, topic="Shrunk", queue_id=1)
        await fill(served, 12)
        await make_topic(served, "Shrunk", queues=1)
        await served.done(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
        stored = served.broker._store
        assert len(stored.queues_of("Shrunk")) == 2
        os.utime(log_files(store)[0], (1, 1))
        await eventually(lambda: goes(served, store, FILE))
        await eventually(
            lambda: [queue.min_offset for queue in stored.queues_of("Shrunk")] == [3, 3]
        )
        await served.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
        assert [queue.queue_id for queue in stored.queues_of("Shrunk")] == [0]
        assert not (store / "consumequeue" / "Shrunk" / "1").exists()
        await send(served, topic="Shrunk")  # It goes on at 3.
        answer = await served.ask(RequestCode.PULL_MESSAGE, pull_fields("Shrunk", offset=3))
        assert answer.fields["nextBeginOffset"] == "4"


async def test_a_topic_may_keep_its_last_messages_only(tmp_path):
    store = tmp_path / "store"
    async with serve(store, **QUICK) as served:
        answer = await make_topic(served, "Short", "+retention.count=3")
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        await send(served, 10, topic="Short")
        await send(served, 10, topic="Orders")
        await begins_at(served, "7")
        answer = await served.ask(RequestCode.PULL_MESSAGE, pull_fields("Orders", offset=0))
        assert answer.fields["minOffset"] == "0"
    async with serve(store, **QUICK) as served:  # Before anybody could look.
        answer = await served.ask(RequestCode.PULL_MESSAGE, pull_fields("Short", offset=0))
        assert answer.fields["nextBeginOffset"] == "7"


async def test_a_topic_may_keep_its_last_bytes_only(tmp_path):
    store = tmp_path / "store"
    async with serve(store, **QUICK) as served:
        answer = await make_topic(served, "Short", "+retention.bytes=much")
        assert answer.code == ResponseCode.INVALID_PARAMETER
        answer = await make_topic(served, "Short", "+retention.bytes=9000")
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        await fill(served, 10, topic="Short")  # Some 3,950 bytes each.
        await begins_at(served, "8")


async def test_consoles_are_told_what_waits_in_the_transient_pool(tmp_path):
    settings: dict[str, Any] = {"is_pool_used": True, "commit_interval_ms": 60_000}
    async with serve(tmp_path / "store", **settings) as served:
        await eventually(lambda: send_and_look(served))


async def send_and_look(served) -> bool:
    """Send; whether it waits to be committed (the first of a broker's life does not)."""
    await send(served)
    answer = await served.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    return json.loads(answer.body)["table"]["remainHowManyDataToCommit"] != "0 B"


async def test_consoles_are_told_how_full_each_disk_is(tmp_path):
    paths = [str(tmp_path / name) for name in "ab"]
    async with serve(tmp_path / "store", commitlog_path=",".join(paths)) as served:
        answer = await served.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        table = json.loads(answer.body)["table"]
    usage = os.statvfs(tmp_path)
    used = usage.f_blocks - usage.f_bfree
    expected = used / (used + usage.f_bavail)
    for name in ("commitLogDiskRatio", "consumeQueueDiskRatio"):
        assert float(table[name]) == pytest.approx(expected, abs=0.02)
    assert {f"commitLogDiskRatio_{path}" for path in paths} <= set(table)


@pytest.mark.parametrize("value", ["0", "-1", "soon", "", "1.5", "9" * 5000])
async def test_a_limit_that_means_nothing_is_refused(served, value):
    answer = await make_topic(served, "Odd", f"+retention.hours={value}")
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert "retention.hours" in answer.remark


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
