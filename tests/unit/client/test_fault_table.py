"""Brokers that answer slowly are avoided for a while."""

import pytest

from cometmq.client.producer.fault_table import ISOLATION_LATENCY_MS, FaultTable, avoided_for_ms
from tests.support.hand_clock import HandClock


@pytest.mark.parametrize(
    ("latency_ms", "avoided_ms"),
    [
        (0, 0), (49, 0), (50, 0), (549, 0), (550, 2000), (1799, 2000), (1800, 5000), (3000, 6000),
        (5000, 10000), (10_000, 10000), (15000, 30000), (60_000, 30000),
    ],
)  # fmt: skip
def test_the_classes_are_those_of_java_5(latency_ms, avoided_ms):
    assert avoided_for_ms(latency_ms) == avoided_ms


def test_a_slow_broker_is_available_again_when_its_time_is_over():
    clock = HandClock()
    table = FaultTable(clock)
    assert table.is_available("a")
    table.note("a", ISOLATION_LATENCY_MS)
    assert not table.is_available("a")
    assert table.is_available("b")
    clock.turn(9.9)
    assert not table.is_available("a")
    clock.turn(0.1)
    assert table.is_available("a")


def test_a_quick_answer_ends_the_avoidance():
    table = FaultTable(HandClock())
    table.note("a", ISOLATION_LATENCY_MS)
    table.note("a", 3)
    assert table.is_available("a")
