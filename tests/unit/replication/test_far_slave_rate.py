"""What a slave that is far behind is sent in a second, from how fast the log grows."""

from __future__ import annotations

from math import exp

import pytest

from cometmq.replication.far_slave_rate import FAR_SIZE, QUIET_SIZE, FarSlaveRate

MIB = 1 << 20
FAR = FAR_SIZE + 1


def looked(growth: int, *, per_second: int = 100 * MIB, seconds: float = 0.25) -> FarSlaveRate:
    """After looks each quarter of a second for so long, while the log grew by so much a second."""
    rate = FarSlaveRate(per_second)
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
    assert FarSlaveRate(100 * MIB).rate(FAR_SIZE) is None


def test_where_nobody_sends_it_gets_what_it_takes():
    assert looked(0).rate(FAR) is None
    assert looked(QUIET_SIZE - 4).rate(FAR) is None
    assert looked(QUIET_SIZE).rate(FAR) == 100 * MIB


def test_zero_holds_nobody_back():
    assert looked(900 * MIB, per_second=0).rate(FAR) is None
    assert FarSlaveRate(0).rate(FAR) is None


def test_before_it_is_known_whether_somebody_sends_it_is_taken_for_so():
    rate = FarSlaveRate(100 * MIB)
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
