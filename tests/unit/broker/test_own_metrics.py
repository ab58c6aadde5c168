"""CometMQ's own metrics of a broker: limits, refusals, disks, groups, and what a page costs."""

from __future__ import annotations

import asyncio
import time

import pytest

from cometmq.broker.send.fast_failure import StallWatch
from cometmq.model.codes import RequestCode
from cometmq.model.group import GroupConfig
from cometmq.model.names import SCHEDULE_TOPIC
from cometmq.model.topic import TopicConfig
from cometmq.steps.steps import Elsewhere, Steps
from cometmq.store.running_flags import RunningFlag
from tests.support.hand_clock import HandClock
from tests.unit.broker.billing import WANTED, commit, send
from tests.unit.broker.conftest import Served, eventually, put_as_broker, serve
from tests.unit.broker.member import Member
from tests.unit.broker.parts_by_hand import load_tables, parts_by_hand
from tests.unit.broker.test_metrics import get, series


async def shown(served: Served, name: str) -> dict[str, float]:
    """The values of a metric that has one label of its own, by it; "" if it has none."""
    _, text = await get(served, "/metrics")
    lines = [line for line in text.splitlines() if line.startswith(f"{name}{{")]
    common = {"otel_scope_name", "cluster", "node_id", "node_type", "broker_id", "role"}
    found = {}
    for line, labels in zip(lines, series(text).get(name, []), strict=True):
        own = [value for label, value in labels.items() if label not in common]
        found[",".join(own)] = float(line.rpartition(" ")[2])
    return found


async def page_anew(served: Served) -> None:
    """Have the next page made anew: one is kept for a second."""
    served.feature("health")._made_at = float("-inf")


async def test_a_store_that_takes_messages_has_no_reason_and_one_that_does_not_has_its(
    tmp_path,
):
    name = "cometmq_store_refuses_writes"
    async with serve(tmp_path) as served:
        reasons = await shown(served, name)
        assert set(reasons.values()) == {0.0}
        assert {"disk_full", "not_writable", "fenced", "too_few_replicas"} <= reasons.keys()
        store = served.broker._store
        for reason, flag in (
            ("disk_full", RunningFlag.DISK_FULL),
            ("not_writable", RunningFlag.NOT_WRITABLE),
        ):
            store.flags.raise_flag(flag, "why")
            await page_anew(served)
            assert {each for each, value in (await shown(served, name)).items() if value} == {
                reason
            }
            store.flags.clear(flag)
        store.replica_side.refuse("too few")
        store.refuse_for_now("busy")
        await page_anew(served)
        now = await shown(served, name)
        assert {each for each, value in now.items() if value} == {
            "too_few_replicas", "loop_blocked",
        }  # fmt: skip


async def test_refusals_are_counted_by_limit_and_begin_at_0(tmp_path):
    name = "cometmq_limit_refusals_total"
    async with serve(tmp_path, topics_max=1, groups_max=1) as served:
        assert set((await shown(served, name)).values()) == {0.0}
        for number in range(3):
            fields = {
                "topic": f"t{number}", "defaultTopic": "TBW102", "readQueueNums": "1",
                "writeQueueNums": "1", "perm": "6", "topicFilterType": "SINGLE_TAG",
            }  # fmt: skip
            await served.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        with pytest.raises(Exception, match="groupsMax"):
            served.broker._groups.check_room("another")
        await page_anew(served)
        counts = {each: value for each, value in (await shown(served, name)).items() if value}
        assert counts == {"topics": 2.0, "groups": 1.0}
        assert (await shown(served, "cometmq_connections"))[""] == 1


async def test_disks_have_their_space_and_the_limits_that_apply(tmp_path):
    async with serve(tmp_path, disk_warning_ratio=95) as served:
        served.broker._store.room.judge()
        used = await shown(served, "cometmq_disk_used_bytes")
        free = await shown(served, "cometmq_disk_free_bytes")
        assert used.keys() == free.keys()
        assert {path.rpartition("/")[2] for path in used} == {"commitlog", "consumequeue"}
        assert all(value > 0 for value in used.values())
        limits = await shown(served, "cometmq_disk_limit_ratio")
        assert limits == {"delete": 0.75, "force": 0.85, "refuse": 0.95}


async def test_groups_show_members_progress_and_dead_letters_from_0_on(tmp_path):
    async with serve(tmp_path) as served:
        await send(served)
        await send(served)
        served.broker._groups.put(GroupConfig("idle"))
        client = Member(served)
        await client.beat(WANTED)
        members = await shown(served, "cometmq_consumer_members")
        assert (members["billing"], members["idle"]) == (1, 0)
        changes = await shown(served, "cometmq_consumer_group_changes_total")
        assert changes["billing"] == 1
        assert (await shown(served, "cometmq_dead_letters"))["idle"] == 0
        assert (await shown(served, "cometmq_consumer_offsets"))["billing,orders"] == 0
        await commit(served, 2)
        served.broker._topics.put(TopicConfig("%DLQ%idle", 1, 1))
        served.broker._topics.put(TopicConfig("%DLQ%gone", 1, 1))
        for topic in ("%DLQ%idle", "%DLQ%idle", "%DLQ%gone"):
            put_as_broker(served, topic, b"dead", {})
        await client.channels.close()
        await eventually(lambda: served.broker._members.consumer_group("billing") is None)
        await page_anew(served)
        assert (await shown(served, "cometmq_consumer_offsets"))["billing,orders"] == 2
        letters = await shown(served, "cometmq_dead_letters")
        assert (letters["idle"], letters["gone"], letters["billing"]) == (2, 1, 0)
        assert (await shown(served, "cometmq_consumer_members"))["billing"] == 0
        assert (await shown(served, "cometmq_consumer_group_changes_total"))["billing"] == 2


async def test_messages_that_wait_for_a_delay_are_counted_by_level(tmp_path):
    async with serve(tmp_path) as served:
        assert await shown(served, "cometmq_delayed_messages") == {}
        assert await shown(served, "cometmq_oldest_half_message_seconds") == {"": 0.0}
        served.broker._topics.ensure(SCHEDULE_TOPIC, queues=18, perm=6)
        for _ in range(3):
            put_as_broker(served, SCHEDULE_TOPIC, b"later", {}, queue_id=17)
        await page_anew(served)
        assert await shown(served, "cometmq_delayed_messages") == {"18": 3.0}


async def test_flushes_are_timed(tmp_path):
    async with serve(tmp_path) as served:
        await send(served)
        events = served.broker._counters.events
        await eventually(lambda: events.times_of("cometmq_flush_duration_seconds")[()].count)
        counts = await shown(served, "cometmq_flush_duration_seconds_count")
        assert counts[""] >= 1


async def test_the_delays_of_the_loop_are_counted_also_where_none_is_refused(tmp_path):
    with parts_by_hand(
        tmp_path, HandClock(), is_fast_failure=False, busy_timeout_ms=1
    ) as parts:
        load_tables(parts)
        watch = StallWatch(parts)
        await watch.start()
        watch._due -= 0.15  # As if the loop had been blocked.
        delays = parts.counters.events.times_of("cometmq_loop_delay_seconds")[()]
        await eventually(lambda: delays.count)
        assert 0.14 < delays.max_us / 1_000_000 < 1
        assert parts.store.refusal is None
        await watch.close()


async def test_a_page_of_1000_topics_and_300_groups_is_made_in_short_steps(
    tmp_path,
):
    async with serve(tmp_path) as served:
        broker = served.broker
        for number in range(1_000):
            topic = TopicConfig(f"topic-{number:04}", 8, 8)
            broker._topics.put(topic)
            broker._counters.puts.of(topic.name, queue_id=0).add(1, 100, 1)
        for number in range(300):
            group, topic_name = f"group-{number:03}", f"topic-{number:04}"
            broker._groups.put(GroupConfig(group))
            broker._counters.gets.of(topic_name, group, 0).add(1, 100, 1)
            for queue_id in range(8):
                broker._offsets.commit(group, topic_name, queue_id, offset=0)
        monitoring = served.feature("health")
        seconds, longest = [], []
        for _ in range(3):
            steps = timed(monitoring._make())
            seconds.append(sum(steps))
            longest.append(max(steps))
            await asyncio.sleep(0)
        # `make bench ARGS="--section operate"` measures; this finds a page that is made in one piece, or walks everything.
        assert min(seconds) <= 1
        assert min(longest) <= 0.02


def timed(steps: Steps[list[bytes]]) -> list[float]:
    """Take steps; the processor time of each part on the loop."""
    found: list[float] = []
    given = None
    while True:
        began = time.thread_time()
        try:
            wait = steps.send(given)
        except StopIteration:
            return [*found, time.thread_time() - began]
        found.append(time.thread_time() - began)
        given = wait.work() if isinstance(wait, Elsewhere) else None
