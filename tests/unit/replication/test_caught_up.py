"""How long a slave has been behind, by one mark, against all that happened."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cometmq.replication.caught_up import CaughtUp


def test_one_that_has_everything_is_not_behind():
    slave = CaughtUp(100, 5.0)
    slave.note(100, 100, 6.0)
    assert slave.behind_seconds(100, 100, 9.0) == 0.0


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


def test_one_that_has_just_connected_counts_from_then():
    slave = CaughtUp(1_000, 50.0)
    slave.note(-1, 1_000, 51.0)
    assert slave.behind_seconds(-1, 1_000, 53.0) == 3.0


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
