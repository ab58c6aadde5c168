"""VIEW_BROKER_STATS_DATA: what was put and consumed in the last minute, hour and day."""

from __future__ import annotations

import json

from cometmq.broker.counters.growth import Growth, TallyGrowth
from cometmq.broker.counters.tally_table import TallyTable
from cometmq.broker.statistics.broker_stats import NAMES
from cometmq.kernel import Tally
from cometmq.model.codes import RequestCode, ResponseCode
from tests.unit.broker.billing import commit, pull_fields, send

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
