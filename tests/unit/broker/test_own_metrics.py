"""CometMQ's own metrics of a broker: limits, refusals, disks, groups, and what a page costs."""

from __future__ import annotations

import asyncio
import time

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import NoOpTracer

from cometmq.broker.metrics.collector import headers_of, target_of
from cometmq.broker.metrics.metric_table import METRICS
from cometmq.broker.metrics.otlp_points import POINTS_AT_ONCE, MetricPoints, instrument_of
from cometmq.broker.metrics.stored_spans import PIECE_SIZE, SpanScan, StoredSpans
from cometmq.broker.send.fast_failure import StallWatch
from cometmq.broker.settings.metrics_keys import MetricsExporter
from cometmq.codec.metrics_text import Buckets, Source
from cometmq.model.codes import RequestCode
from cometmq.model.errors import SettingsError
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
    served,
):
    name = "cometmq_store_refuses_writes"
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


async def test_groups_show_members_progress_and_dead_letters_from_0_on(served):
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


async def test_messages_that_wait_for_a_delay_are_counted_by_level(served):
    assert await shown(served, "cometmq_delayed_messages") == {}
    assert await shown(served, "cometmq_oldest_half_message_seconds") == {"": 0.0}
    served.broker._topics.ensure(SCHEDULE_TOPIC, queues=18, perm=6)
    for _ in range(3):
        put_as_broker(served, SCHEDULE_TOPIC, b"later", {}, queue_id=17)
    await page_anew(served)
    assert await shown(served, "cometmq_delayed_messages") == {"18": 3.0}


async def test_flushes_are_timed(served):
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
    served,
):
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


def test_every_name_is_that_of_rocketmqs_instrument():
    """As BrokerMetricsConstant, DefaultStoreMetricsConstant, PopMetricsConstant and RemotingMetricsConstant of 5.3.3 have them."""
    assert instrument_of("rocketmq_rpc_latency_milliseconds") == (
        "rocketmq_rpc_latency",
        "milliseconds",
    )
    assert instrument_of("rocketmq_delay_message_latency_seconds") == (
        "rocketmq_delay_message_latency",
        "seconds",
    )
    assert instrument_of("rocketmq_storage_size_bytes") == ("rocketmq_storage_size", "bytes")
    behind = "rocketmq_storage_flush_behind_bytes"
    assert instrument_of(behind) == (behind, "bytes")
    assert instrument_of("rocketmq_messages_in_total") == ("rocketmq_messages_in_total", "")
    names = [instrument_of(name)[0] for name in METRICS]
    assert len(set(names)) == len(names)


def walk(steps: Steps):
    """Take steps that wait for nothing but the end of a turn; what they give, and how often others had a turn."""
    turns = 0
    while True:
        try:
            next(steps)
            turns += 1
        except StopIteration as ended:
            return ended.value, turns


def test_many_points_go_in_pieces_with_turns_between_and_what_is_beyond_the_bound_is_one():
    name, sizes = "rocketmq_messages_in_total", "rocketmq_message_size"
    sources: dict[str, Source] = {
        name: lambda: (((f"t{number}", "normal", "false"), 1) for number in range(2_500)),
        sizes: lambda: (
            ((f"t{number}", "normal", "true"), Buckets([1, 1, 1, 1, 1, 1, 2], 7))
            for number in range(2_500)
        ),
    }
    points = MetricPoints(Resource({}), {"cluster": "c"}, sources, series_max=2_000, begun_ms=1)
    points.begin(2)
    counts: dict[str, int] = {}
    rest = {}
    while (piece := (told := walk(points.next_piece()))[0]) is not None:
        metrics = piece.resource_metrics[0].scope_metrics[0].metrics
        size = 0
        for metric in metrics:
            size += len(metric.data.data_points)
            counts[metric.name] = counts.get(metric.name, 0) + len(metric.data.data_points)
            last = metric.data.data_points[-1]
            if last.attributes.get("otel.metric.overflow"):
                rest[metric.name] = last
        assert size <= POINTS_AT_ONCE
        assert told[1] >= size // 400
    assert counts == {name: 2_001, sizes: 2_001}
    assert rest[name].value == 500
    assert rest[sizes].count == 1_000
    assert rest[sizes].bucket_counts == [500, 0, 0, 0, 0, 0, 500]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:4317", "https://127.0.0.1:4317"),
        (" http://c:4317 ", "http://c:4317"),
        ("https://c", "https://c"),
    ],
)
def test_a_target_without_a_scheme_is_encrypted(text, found):
    assert target_of(text) == found


def test_a_header_that_is_none_is_refused_without_its_value():
    assert headers_of("A:b, C: d:e,") == (("a", "b"), ("c", "d:e"))
    with pytest.raises(SettingsError, match=r"part 2 is not name:value") as refused:
        headers_of("a:b,s3cret")
    assert "s3cret" not in str(refused.value)


async def test_without_a_target_no_broker_starts(tmp_path):
    with pytest.raises(SettingsError, match="metricsGrpcExporterTarget"):
        async with serve(tmp_path, metrics_exporter=MetricsExporter.OTLP_GRPC):
            pass


@pytest.mark.parametrize("at", [7, PIECE_SIZE - 6, PIECE_SIZE, 2 * PIECE_SIZE + 9, None])
def test_records_are_looked_at_where_a_trace_stands_and_nowhere_else(caplog, at):
    """Also where its name lies across two pieces of the log; here are no records, which is said when they are looked at."""
    log = bytearray(3 * PIECE_SIZE)
    if at is not None:
        log[at : at + 12] = b"traceparent\x01"
    reads: list[int] = []

    def read(offset: int, size: int) -> bytes:
        reads.append(offset)
        return bytes(log[offset : offset + size])

    spans = StoredSpans(read, NoOpTracer(), "broker-a")
    assert spans.look(0, len(log)) == SpanScan(len(log), 0, 0)
    assert (at is None) == ("no record" not in caplog.text)
    assert len(reads) <= 5
