"""Latencies by class, totals at midnight, and what the counters say of a turn."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import pytest

from cometmq.broker.counters.counters import Counters, MidnightTotals
from cometmq.broker.counters.growth import Growth, TallyGrowth
from cometmq.broker.counters.latencies import BOUNDS_US, Latencies
from cometmq.broker.counters.tally_table import TallyTable
from cometmq.broker.statistics.broker_stats import NAMES
from cometmq.broker.statistics.statistics import ConsumeRateSamples
from cometmq.broker.tables.offsets import Offsets
from cometmq.kernel import Tally
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.store.consume_queue import ConsumeQueue
from tests.support.hand_clock import HandClock
from tests.unit.broker.billing import commit, pull_fields, send

DAY_MS = 86_400_000


def test_a_percentile_is_true_to_a_quarter():
    latencies = Latencies()
    for time_us in range(1, 10_001):
        latencies.add(time_us)
    assert latencies.percentile_ms(0.99) == pytest.approx(9.9, rel=0.25)
    assert latencies.percentile_ms(0.5) == pytest.approx(5.0, rel=0.25)
    assert (latencies.max_us, latencies.count) == (10_000, 10_000)


def test_a_percentile_is_of_the_last_minutes_and_nothing_is_0():
    latencies = Latencies()
    assert latencies.percentile_ms(0.99) == 0
    latencies.add(60_000_000)
    assert latencies.percentile_ms(0.99) == 60_000
    latencies.turn()
    latencies.add(10, 100)
    latencies.turn()
    assert latencies.percentile_ms(0.99) == 0.01
    latencies.turn()
    assert latencies.percentile_ms(0.99) == 0


def test_times_of_puts_are_those_of_clients_and_of_the_broker_itself():
    counters = Counters(HandClock())
    counters.sends.add(5_000, 2)
    counters.sends.add(90_000, 2)
    counters.sends.turn()
    counters.sends.turn()
    counters.sends.add(7_000)
    puts: Any = [(ConsumeQueue("orders", 0),)]
    counters.follow(puts[0][0])
    counters.count_puts(puts, [(0, 0, 1)], counters.now() - 0.25, counters.inner_puts)
    both = counters.put_latencies
    assert (both.count, both.total_us, both.max_us) == (6, 447_000, 250_000)
    assert both.percentile_ms(0.5) == pytest.approx(7.0, rel=0.25), "of the last minutes alone"
    assert both.distribution() == (
        "[<=0ms]:0 [0~10ms]:3 [10~50ms]:0 [50~100ms]:2 [100~200ms]:0 [200~500ms]:1 [500ms~1s]:0"
        " [1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:0"
    )
    assert counters.sends.count == 5


def test_times_are_in_javas_classes_too():
    latencies = Latencies()
    for time_us in (0, 999, 1_000, 1_001, 10_001, 700_000, 20_000_000):
        latencies.add(time_us)
    told = dict(each.split(":") for each in latencies.distribution().split(" "))
    assert told["[<=0ms]"] == "3"
    assert (told["[0~10ms]"], told["[10~50ms]"], told["[500ms~1s]"]) == ("1", "1", "1")
    assert told["[10s~]"] == "1"
    assert sum(map(int, told.values())) == 7
    assert list(BOUNDS_US) == sorted(set(BOUNDS_US))


def test_a_morning_has_what_was_counted_before_midnight():
    totals = MidnightTotals(0, (0, 0))
    totals.note(1_000, (5, 1))
    assert (totals.today, totals.yesterday) == ((0, 0), (0, 0))
    totals.note(DAY_MS + 1_000, (6, 2))
    assert totals.today == (5, 1)
    totals.note(2 * DAY_MS + 1_000, (9, 2))
    assert (totals.today, totals.yesterday) == ((6, 2), (5, 1))


def test_a_day_has_what_is_stored_in_topics_of_users():
    """The broker's own name is a topic of the system's, to which tools send."""
    counters = Counters(HandClock(), {"broker-a"}.__contains__)
    for topic, count in (("orders", 2), ("broker-a", 3)):
        queue = ConsumeQueue(topic, 0)
        counters.follow(queue)
        puts: Any = [(queue,)] * count
        counters.count_puts(puts, [(0, 0, 1)] * count, counters.now(), counters.inner_puts)
    counters.count_handed_out("orders", "TOOLS_CONSUMER", 0, 4, 1, counters.now())
    assert counters.put_count == 5
    assert counters.of_today == (2, 4)


def test_each_run_of_a_queue_goes_to_its_queue_its_topic_and_all():
    counters = Counters(HandClock())
    queues = [ConsumeQueue(topic, number) for topic in ("a", "b") for number in range(2)]
    for queue in queues:
        counters.follow(queue)
    order = [0, 0, 1, 2, 2, 3, 0, 3]
    sizes = [100, 5_000, 100, 600_000, 1, 5_000_000, 1_024, 1_025]
    puts = [(queues[number],) for number in order]
    results = [(0, 0, size) for size in sizes]
    counters.count_puts(puts, results, counters.now(), counters.inner_puts)  # type: ignore[arg-type]
    found = {
        (queue.topic, queue.queue_id): (queue.tally.count, queue.tally.size)
        for queue in queues
        if queue.tally is not None
    }
    assert found == {
        ("a", 0): (3, 6_124), ("a", 1): (1, 100), ("b", 0): (2, 600_001), ("b", 1): (2, 5_001_025),
    }  # fmt: skip
    assert counters.puts.of("a").count == 4
    assert counters.puts.of("a").sizes == (3, 0, 1, 0, 0, 0, 0)
    assert counters.puts.of("b").sizes == (1, 1, 0, 1, 0, 0, 1)
    assert (counters.put_count, counters.put_size) == (8, sum(sizes))


def test_names_of_any_length_were_counted_by_themselves():
    """Acknowledgements name any group, and what is given back any topic that it came from."""
    counters = Counters(HandClock())
    for number in range(100):
        counters.acks.of("orders", f"{number}" + "g" * 30_000).add(1, 0, 0)
        counters.sent_back.of(f"{number}" + "t" * 30_000, "group").add(1, 0, 0)
        counters.events.add("rocketmq_commit_messages_total", f"{number}" + "t" * 30_000)
        counters.events.took("any", f"{number}" + "t" * 30_000, time_us=1)
    assert (len(counters.acks), len(counters.sent_back)) == (0, 0)
    assert counters.acks.all.count == 100
    assert not counters.events.of("rocketmq_commit_messages_total")
    assert not counters.events.times_of("any")


GROUPS = 20_000


@pytest.fixture
def often_switching():
    """Threads take turns within a few operations."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("often_switching")
def test_a_rate_is_told_while_groups_come():
    offsets = Offsets(file=None, clock=HandClock(), pool=None)  # type: ignore[arg-type]  # Saves nothing.
    rates = ConsumeRateSamples(offsets, HandClock())
    faults: list[Exception] = []
    done = threading.Event()

    def ask() -> None:
        try:
            while not done.is_set():
                assert rates.rate("group0", "T") == 0.0
                offsets.consumed_counts()
        except Exception as error:
            faults.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    for number in range(GROUPS):
        offsets.commit(f"group{number}", "T", 0, offset=number)
        if number % 1000 == 0:
            rates.sample()
    done.set()
    asking.join()
    assert faults == []


MINUTE, HOUR = 60.0, 3_600.0


def grown(growth: TallyGrowth, tally: Tally, now: float) -> list[int]:
    return [each.count for each in growth.of(tally, now)]


def test_a_tally_grows_in_its_windows():
    growth = TallyGrowth(0.0)
    fresh: list[Tally] = []
    tally = Tally("k", None, fresh)
    assert grown(growth, tally, 0.0) == [0, 0, 0]
    for second in range(0, 7_200, 10):
        tally.add(10, 1_000, 5)
        assert fresh.pop() is tally
        growth.note(tally, float(second))
    minute, hour, day = growth.of(tally, 7_200.0)
    assert 50 <= minute.count <= 70
    assert 3_500 <= hour.count <= 4_300
    assert day == Growth(7_200, 720_000, 36_000, 720, 7_200.0)


def test_a_tally_that_rests_leaves_the_short_windows_first():
    growth = TallyGrowth(0.0)
    tally = Tally("k", None, [])
    tally.add(5, 0, 0)
    growth.note(tally, 10.0)
    assert grown(growth, tally, 20.0) == [5, 5, 5]
    assert grown(growth, tally, 10.0 + 2 * MINUTE) == [0, 5, 5]
    assert grown(growth, tally, 10.0 + 2 * HOUR) == [0, 0, 5]


def test_growth_and_tallies_have_a_bound():
    fresh: list[Tally] = []
    table, growth = TallyTable(fresh, tallies_max=3), TallyGrowth(0.0, kept_max=2)
    for queue in range(5):
        table.of("orders", "billing", queue).add(1, 10, 0)
    assert (len(table), table.of("orders", "billing").count) == (3, 5)
    assert table.get("orders", "billing", 4) is None
    assert table.of("other", "billing") is table.users
    assert (table.all.count, table.all.size) == (5, 50)
    for tally in fresh:
        growth.note(tally, 1.0)
    assert len([tally for tally in fresh if tally.kept is not None]) == 2
    table.forget("orders", lambda group: group == "other")
    assert len(table) == 3
    assert table.wholes() == [table.get("orders", "billing")]
    table.forget("orders")
    assert (len(table), table.topics(), table.wholes()) == (0, [], [])


async def view(served, name: str, key: str):
    fields = {"statsName": name, "statsKey": key}
    return await served.ask(RequestCode.VIEW_BROKER_STATS_DATA, fields)


async def sums(served, name: str, key: str) -> list[int]:
    told = json.loads((await view(served, name, key)).body)
    return [told[window]["sum"] for window in ("statsMinute", "statsHour", "statsDay")]


async def test_a_broker_tells_puts_and_what_was_handed_out(served):
    for _ in range(3):
        await send(served)
    assert await sums(served, "TOPIC_PUT_NUMS", "orders") == [3, 3, 3]
    await commit(served, 3)
    refused = await view(served, "GROUP_GET_NUMS", "orders@billing")
    assert refused.code == ResponseCode.SYSTEM_ERROR
    await served.done(RequestCode.PULL_MESSAGE, pull_fields(1))
    assert await sums(served, "GROUP_GET_NUMS", "orders@billing") == [2, 2, 2]
    assert await sums(served, "QUEUE_GET_NUMS", "orders@0@billing") == [2, 2, 2]
    (puts, *_) = await sums(served, "BROKER_PUT_NUMS", "DefaultCluster")
    assert puts >= 3
    for name, key in (
        ("TOPIC_PUT_NUMS", "nobody"), ("MINE", "orders"), ("QUEUE_PUT_NUMS", "orders"),
        ("QUEUE_PUT_NUMS", "orders@x"), ("QUEUE_PUT_NUMS", "orders@" + "9" * 500),
        ("QUEUE_PUT_NUMS", "orders@--5"),
        ("BROKER_PUT_NUMS", "OtherCluster"), ("GROUP_GET_NUMS", "@@@@"), ("GROUP_GET_NUMS", ""),
    ):  # fmt: skip
        refused = await view(served, name, key)
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert "not exist" in refused.remark


KEYS = {
    ("topic",): "orders",
    ("cluster",): "DefaultCluster",
    ("topic", "group"): "orders@billing",
    ("topic", "queue"): "orders@0",
    ("topic", "queue", "group"): "orders@0@billing",
    ("queue", "topic"): "0@orders",
    ("queue", "topic", "group"): "0@orders@billing",
}


async def test_every_name_tells_what_was_counted(served):
    """Each table has one tally of 2 messages of 100 bytes each, that took 3 ms each."""
    counters = served.broker._counters
    for table in counters.tables:
        table.of("orders", "" if table is counters.puts else "billing", 0).add(2, 200, 3_000)
    for name, what in NAMES.items():
        minute = json.loads((await view(served, name, KEYS[what.key])).body)["statsMinute"]
        if name.endswith("LATENCY"):
            wanted = (6, 3.0 if name == "TOPIC_PUT_LATENCY" else 6.0)
        else:
            wanted = (200, 200.0) if name.endswith("SIZE") else (2, 2.0)
        assert (minute["sum"], minute["avgpt"]) == wanted, name


async def test_a_topic_that_is_gone_is_not_counted_any_more(served):
    await send(served)
    assert len(served.broker._counters.puts) == 2
    await served.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    assert len(served.broker._counters.puts) == 0
    await send(served)
    assert await sums(served, "TOPIC_PUT_NUMS", "orders") == [1, 1, 1]


async def test_numbers_that_are_not_kept_are_refused_by_name(served):
    """Those of cloud accounts, of connections, and what RocketMQ has no answer to either."""
    for name in ("COMMERCIAL_SEND_TIMES", "CHANNEL_ACTIVITY", "GROUP_GET_FALL_SIZE"):
        refused = await view(served, name, "orders@billing")
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert name in refused.remark
        assert "not exist" in refused.remark
