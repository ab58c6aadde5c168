"""What a slave may be sent in a second, with a clock that the test turns."""

from __future__ import annotations

import random
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.replication.caught_up import CaughtUp
from cometmq.replication.copies import Copies, CopyRule
from cometmq.replication.far_slave_rate import FAR_SIZE, QUIET_SIZE, FarSlaveRate
from cometmq.replication.pace import Pace
from cometmq.replication.terms import SlaveRates

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


MIB = 1 << 20
FAR = FAR_SIZE + 1


def looked(growth: int, *, per_second: int = 100 * MIB, seconds: float = 0.25) -> FarSlaveRate:
    """After looks each quarter of a second for so long, while the log grew by so much a second."""
    rate = FarSlaveRate(SlaveRates(catch_up=per_second))
    for number in range(int(seconds * 4) + 1):
        rate.look(5 * MIB + number * growth // 4, 10 + number / 4)
    return rate


def test_it_gets_more_than_the_log_grows_by_so_that_it_arrives():
    for growth, sent in ((2, 100), (70, 100), (80, 105), (900, 925)):
        rate = looked(growth * MIB, seconds=900).rate(FAR)
        assert rate is not None
        assert sent * MIB * 0.999 < rate <= sent * MIB
    rate = looked(900 * MIB, per_second=1, seconds=900).rate(FAR)
    assert rate is not None
    assert 899 * MIB < rate <= 900 * MIB + 1


def test_who_sends_very_much_for_some_seconds_is_not_held_up_by_it():
    """Not before its mean of a minute is more than three quarters of what the slave gets anyway."""
    assert looked(150 * MIB, seconds=4).rate(FAR) == 100 * MIB
    assert looked(150 * MIB, seconds=40).rate(FAR) == 100 * MIB
    assert looked(150 * MIB, seconds=60).rate(FAR) == pytest.approx(
        150 * MIB * (1 - exp(-1)) + 25 * MIB
    )
    assert looked(150 * MIB, seconds=180).rate(FAR) == pytest.approx(175 * MIB, rel=0.05)


def test_who_keeps_up_is_not_held_back():
    assert looked(900 * MIB).rate(FAR_SIZE) is None
    assert looked(900 * MIB).rate(0) is None
    assert FarSlaveRate(SlaveRates(catch_up=100 * MIB)).rate(FAR_SIZE) is None


def test_where_nobody_sends_it_gets_what_it_takes():
    assert looked(0).rate(FAR) is None
    assert looked(QUIET_SIZE - 4).rate(FAR) is None
    assert looked(QUIET_SIZE).rate(FAR) == 100 * MIB


def test_zero_holds_nobody_back():
    assert looked(900 * MIB, per_second=0).rate(FAR) is None
    assert FarSlaveRate(SlaveRates()).rate(FAR) is None


def test_one_that_producers_wait_for_has_the_operators_limit_only():
    rate = looked(900 * MIB)
    assert rate.rate(FAR, is_awaited=True) is None
    rate.rates = SlaveRates(most=7 * MIB, catch_up=100 * MIB)
    assert rate.rate(FAR, is_awaited=True) == rate.rate(FAR) == rate.rate(0) == 7 * MIB


def test_before_it_is_known_whether_somebody_sends_it_is_taken_for_so():
    rate = FarSlaveRate(SlaveRates(catch_up=100 * MIB))
    assert rate.rate(FAR) == 100 * MIB
    rate.look(7 * MIB, 3.0)
    assert rate.rate(FAR) == 100 * MIB
    rate.look(8 * MIB, 3.05)  # Too soon to say anything.
    assert rate.rate(FAR) == 100 * MIB
    rate.look(8 * MIB, 3.5)
    assert rate.rate(FAR) == 100 * MIB
    rate.look(8 * MIB, 4.0)
    assert rate.rate(FAR) is None


def test_what_was_seen_before_a_while_without_slaves_counts_no_more():
    rate = looked(900 * MIB, seconds=900)
    rate.forget()
    assert rate.rate(FAR) == 100 * MIB
    rate.look(1 << 40, 1900.0)
    assert rate.rate(FAR) == 100 * MIB
    rate.look((1 << 40) + 2 * MIB, 1901.0)
    assert rate.rate(FAR) == 100 * MIB
    rate.look((1 << 40) + 2 * MIB, 1902.0)
    assert rate.rate(FAR) is None


def test_a_log_that_was_cut_has_not_grown():
    rate = looked(900 * MIB)
    rate.look(0, 11.0)
    assert rate.rate(FAR) is None


FAR_END = 1 << 40


def copies(rule: CopyRule, **acked: int) -> Copies:
    made = Copies(rule)
    for member, offset in acked.items():
        made.acked(member, offset)
    return made


@pytest.mark.parametrize(
    ("needed", "acked", "in_sync", "end"),
    [
        (2, {}, 1, 0),
        (2, {"a": 70}, 2, 70),
        (2, {"a": 70, "b": 90}, 3, 90),
        (3, {"a": 70, "b": 90}, 3, 70),
        (3, {"a": 70}, 2, 0),
        (4, {"a": 70, "b": 90, "c": 80}, 4, 70),
    ],
)
def test_as_many_members_as_are_needed_have_the_log_up_to_there(needed, acked, in_sync, end):
    count = copies(CopyRule(needed=needed), **acked).count(100)
    assert (count.in_sync, count.end) == (in_sync, end)
    assert count.is_enough is (in_sync >= needed)


def test_nobody_waits_where_the_master_is_enough():
    assert copies(CopyRule(needed=1), a=70).count(100).end is None


def test_1155_a_member_is_counted_once_however_many_connections_it_has():
    made = copies(CopyRule(needed=3), a=70)
    made.acked("a", 90)
    made.acked("a", 80)
    count = made.count(100)
    assert (count.in_sync, count.is_enough) == (2, False)


def test_who_lacks_too_much_is_not_in_sync():
    made = copies(CopyRule(needed=2, gap_max=30), a=70)
    assert made.count(99).is_enough
    assert not made.count(100).is_enough
    made.acked("a", 71)
    assert made.count(100).is_enough
    made.gone("a")
    assert made.count(100).in_sync == 1


def test_a_log_that_is_not_compared_yet_is_in_sync_and_confirms_nothing():
    made = copies(CopyRule(needed=2, gap_max=50), a=60)
    made.acked("b", 90, is_compared=False)
    assert made.count(100) == (3, 2, 60)
    made.gone("a")
    assert made.count(100) == (2, 2, 0)
    made.acked("b", 95)
    assert made.count(100) == (2, 2, 95)


def test_the_need_falls_to_who_is_in_sync_and_no_lower_than_the_least():
    rule = CopyRule(needed=3, least=2, is_adapted=True)
    assert not copies(rule).count(100).is_enough
    assert copies(rule, a=70).count(100).end == 70
    assert copies(rule, a=70, b=60).count(100).end == 60
    alone = copies(CopyRule(needed=3, is_adapted=True)).count(100)
    assert (alone.end, alone.is_enough) == (100, True)


def test_one_that_has_everything_is_not_behind_and_one_that_just_connected_counts_from_then():
    slave = CaughtUp(100, 5.0)
    slave.note(100, 100, 6.0)
    assert slave.behind_seconds(100, 100, 9.0) == 0.0
    slave = CaughtUp(1_000, 50.0)
    slave.note(-1, 1_000, 51.0)
    assert slave.behind_seconds(-1, 1_000, 53.0) == 3.0


def test_one_that_stands_still_is_behind_since_it_had_everything():
    slave = CaughtUp(0, 5.0)
    slave.note(70, 70, 10.0)
    for second in range(11, 40):
        slave.note(70, 70 + second, second)
    assert slave.behind_seconds(70, 109, 40.0) == 30.0


def test_one_under_load_that_is_never_at_the_end_is_as_late_as_its_acknowledgements_are():
    """Each acknowledgement names the end of half a second ago, so it is behind by about that, and not by more and more."""
    slave = CaughtUp(0, 0.0)
    for number in range(1, 1_000):
        now = number / 10
        slave.note(max(number - 5, 0) * 100, number * 100, now)
        assert slave.behind_seconds(max(number - 5, 0) * 100, number * 100, now) <= 1.2
    assert slave.behind_seconds(994 * 100, 999 * 100, 99.9) >= 0.5


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 60)), min_size=1))
def test_it_is_never_said_to_have_caught_up_later_than_it_had(moves):
    """The truth: the last time at which the end of the log was one that it has acknowledged by now."""
    end = acked = 0
    ends = [(0, 0)]
    slave = CaughtUp(0, 0)
    for now, (grown, read) in enumerate(moves, 1):
        end += grown
        acked = min(acked + read, end)
        ends.append((now, end))
        slave.note(acked, end, now)
        truly = 0 if acked >= end else now - max(at for at, was in ends if was <= acked)
        assert slave.behind_seconds(acked, end, now) >= truly
