"""How fast groups consume is asked in threads, while the loop takes offsets of new groups."""

import sys
import threading

import pytest

from cometmq.broker.statistics.statistics import ConsumeRateSamples
from cometmq.broker.tables.offsets import Offsets
from tests.support.hand_clock import HandClock

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
