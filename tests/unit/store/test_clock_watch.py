"""Wall time decides about deletion again when it was set back, or has stayed for an hour."""

from __future__ import annotations

import pytest

from cometmq.store.clock_watch import BELIEVED_AFTER_S, ClockWatch
from tests.support.hand_clock import HandClock

DAY_MS = 86_400_000


class SetClock(HandClock):
    """A clock whose wall time can be set."""

    def __init__(self) -> None:
        super().__init__()
        self.set_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.set_ms


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


def test_long_uptime_and_small_steps_are_trusted(clock):
    watch = ClockWatch(clock)
    for _ in range(100):
        clock.turn(100 * 86_400)
        clock.set_ms += 500
        assert watch.trusts()


def test_a_clock_that_was_set_forward_and_back_is_trusted_at_once(clock, caplog):
    watch = ClockWatch(clock)
    clock.set_ms = 4 * DAY_MS
    assert not watch.trusts()
    clock.turn(12)
    assert not watch.trusts()
    clock.set_ms = 0
    assert watch.trusts()
    assert len(caplog.messages) == 2


def test_a_clock_that_stays_is_believed_after_an_hour(clock):
    watch = ClockWatch(clock)
    clock.set_ms = 4 * DAY_MS  # The machine slept, say.
    assert not watch.trusts()
    clock.turn(BELIEVED_AFTER_S - 1)
    assert not watch.trusts()
    clock.turn(2)
    assert watch.trusts()


def test_a_clock_that_was_set_back_alone_is_trusted(clock):
    watch = ClockWatch(clock)
    clock.set_ms = -4 * DAY_MS
    assert watch.trusts()
    clock.set_ms = 0  # To where it was before: ahead of what the last look saw.
    assert not watch.trusts()
