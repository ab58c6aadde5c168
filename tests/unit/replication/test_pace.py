"""What a slave may be sent in a second, with a clock that the test turns."""

from __future__ import annotations

import random

import pytest

from cometmq.replication.pace import Pace

RATES = [1, 3, 39, 41, 1_000, 12_345, 100 << 20]


def copy(pace: Pace, seconds: float, late: float = 0.0) -> list[tuple[float, int]]:
    """Send as much as may be sent, beginning at 10.25; when, and how many bytes."""
    now, sent = 10.25, []
    while now < 10.25 + seconds:
        wait = pace.wait(pace.size_max, now)
        if wait:
            now += wait + late
            continue
        pace.sent(pace.size_max, now)
        sent.append((now, pace.size_max))
    return sent


def by_second(sent: list[tuple[float, int]]) -> dict[int, int]:
    seconds: dict[int, int] = {}
    for now, size in sent:
        seconds[int(now)] = seconds.get(int(now), 0) + size
    return seconds


@pytest.mark.parametrize("rate", RATES)
def test_a_second_has_no_more_than_was_allowed_and_nearly_all_of_it(rate):
    seconds = by_second(copy(Pace(rate), 5))
    for second in range(11, 15):
        assert rate - Pace(rate).size_max <= seconds[second] <= rate


@pytest.mark.parametrize("rate", [12_345, 100 << 20])
def test_timers_that_are_late_cost_nothing(rate):
    seconds = by_second(copy(Pace(rate), 5, late=0.02))
    for second in range(11, 15):
        assert 0.95 * rate <= seconds[second] <= rate


def test_a_second_is_spread_and_a_pause_is_not_made_up_for():
    rate = 1_000_000
    pace = Pace(rate)
    for pause in (0.0, 0.9, 7.4):
        begin = 20.05 + pause
        gone = 0
        while pace.wait(pace.size_max, begin) == 0:
            pace.sent(pace.size_max, begin)
            gone += pace.size_max
        assert gone <= rate / 20
    parts: dict[int, int] = {}
    for now, size in copy(Pace(rate), 3):
        parts[int(now * 10)] = parts.get(int(now * 10), 0) + size
    assert max(parts.values()) <= 0.16 * rate


def test_what_is_waited_for_is_there_then():
    chance = random.Random(7)
    for _ in range(2_000):
        pace = Pace(chance.choice(RATES))
        now = chance.uniform(0, 100)
        for _ in range(20):
            size = chance.randint(1, pace.size_max)
            for _ in range(4):
                wait = pace.wait(size, now)
                assert 0 <= wait <= 1.05
                if not wait:
                    break
                now += wait
            assert not pace.wait(size, now)
            pace.sent(size, now)
            now += chance.choice([0.0, 0.0, 0.001, 0.03, 1.7])


def test_what_is_sent_later_than_it_was_allowed_counts_for_its_second():
    """A thread has read it meanwhile."""
    pace = Pace(1_000)
    assert pace.wait(25, 10.999) == 0
    pace.sent(25, 11.001)
    assert 0.023 <= pace.wait(25, 11.001) <= 0.05
