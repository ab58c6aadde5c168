"""VIEW_BROKER_STATS_DATA: what was put and consumed in the last minute, hour and day."""

from __future__ import annotations

import json

from cometmq.broker.service.growth import Growth, GrowthSamples
from cometmq.model.codes import RequestCode, ResponseCode
from tests.unit.broker.billing import commit, send

MINUTE, HOUR = 60.0, 3_600.0


def grown(samples: GrowthSamples, value: int, now: float) -> list[int]:
    return [each.sum for each in samples.of("k", value, now)]


def test_a_number_grows_in_its_windows():
    samples = GrowthSamples(0.0)
    samples.begin("k", 100)
    assert grown(samples, 100, 0.0) == [0, 0, 0]
    for second in range(0, 7_200, 10):
        samples.note("k", 100 + second, float(second))
    minute, hour, day = samples.of("k", 7_300, 7_200.0)
    assert 55 <= minute.sum <= 75
    assert 3_600 <= hour.sum <= 4_300
    assert day == Growth(7_200, 7_200.0)
    assert day.per_second == 1.0


def test_a_number_that_rests_leaves_the_short_windows_first():
    samples = GrowthSamples(0.0)
    samples.note("k", 5, 10.0)
    assert grown(samples, 5, 20.0) == [5, 5, 5]
    assert grown(samples, 5, 10.0 + 2 * MINUTE) == [0, 5, 5]
    assert grown(samples, 5, 10.0 + 2 * HOUR) == [0, 0, 5]


def test_what_is_gone_is_forgotten():
    samples = GrowthSamples(0.0)
    samples.note("k", 5, 10.0)
    samples.note("other", 5, 10.0)
    samples.forget({"other"})
    assert not samples.knows("k")
    assert samples.knows("other")


async def view(served, name: str, key: str):
    fields = {"statsName": name, "statsKey": key}
    return await served.ask(RequestCode.VIEW_BROKER_STATS_DATA, fields)


async def sums(served, name: str, key: str) -> list[int]:
    told = json.loads((await view(served, name, key)).body)
    return [told[window]["sum"] for window in ("statsMinute", "statsHour", "statsDay")]


async def test_a_broker_tells_puts_and_what_groups_consumed(served):
    for _ in range(3):
        await send(served)
    assert await sums(served, "TOPIC_PUT_NUMS", "orders") == [3, 3, 3]
    await commit(served, 1)
    assert await sums(served, "GROUP_GET_NUMS", "orders@billing") == [0, 0, 0]
    await commit(served, 3)
    assert await sums(served, "GROUP_GET_NUMS", "orders@billing") == [2, 2, 2]
    (puts, *_) = await sums(served, "BROKER_PUT_NUMS", "DefaultCluster")
    assert puts >= 3
    for name, key in (("TOPIC_PUT_NUMS", "nobody"), ("MINE", "orders")):
        refused = await view(served, name, key)
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert "not exist" in refused.remark


async def test_numbers_that_are_not_kept_are_refused_by_name(served):
    """Sizes, latencies, and how often somebody asked for messages."""
    for name in ("TOPIC_PUT_SIZE", "GROUP_GET_SIZE", "GROUP_GET_LATENCY", "SNDBCK_PUT_NUMS"):
        refused = await view(served, name, "orders")
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert name in refused.remark
        assert "not exist" in refused.remark
