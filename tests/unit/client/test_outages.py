"""Failures that last: one line at the begin, one after five minutes with the count, one at the end."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from cometmq.client.consumer.counts import Counts, TopicCounts
from cometmq.client.outages import AGAIN_SECONDS, WELL_SECONDS, Outages
from cometmq.codec.bodies.running import ConsumeRates
from cometmq.model.errors import BrokerRefused, ConnectError
from tests.support.hand_clock import HandClock

AWAY = ConnectError("nobody answers at 10.0.0.1:10911")
FIRST = f"pulling from broker-a fails: {AWAY}; trying again"


@pytest.fixture
def outages(clock: HandClock) -> Outages:
    return Outages(clock)


def fail(outages: Outages, *queues: int) -> None:
    for queue in queues:
        outages.failed("pulling from", "broker-a", AWAY, queue)


def test_64_queues_of_a_broker_that_is_away_for_an_hour_write_a_line_each_five_minutes(
    outages, clock, caplog
):
    for _ in range(3_600):
        fail(outages, *range(64))
        clock.turn(1)
    count = 64 * int(AGAIN_SECONDS)
    again = f"{FIRST} ({count} failures since the last such line)"
    assert caplog.messages[:2] == [FIRST, again]
    assert len(caplog.messages) == 12


def test_it_is_over_when_nothing_of_it_fails_and_a_well_one_costs_no_line(outages, caplog):
    fail(outages, 1, 2)
    for queue in (1, 3, 2, 2):
        outages.worked("pulling from", queue)
    assert caplog.messages == [FIRST, "pulling from broker-a works again"]
    assert not outages.failing


def test_one_that_fails_and_works_each_second_writes_two_lines_in_five_minutes(
    outages, clock, caplog
):
    for _ in range(int(AGAIN_SECONDS) // 2):
        fail(outages, 1)
        clock.turn(1)
        outages.worked("pulling from", 1)
        clock.turn(1)
    assert len(caplog.messages) == 2


def test_one_that_comes_back_after_a_while_is_reported_at_once(outages, clock, caplog):
    for _ in range(2):
        fail(outages, 1)
        outages.worked("pulling from", 1)
        clock.turn(WELL_SECONDS)
    assert len(caplog.messages) == 4


def test_another_failure_of_the_same_queue_is_an_outage_of_its_own(outages, caplog):
    fail(outages, 1, 2)
    outages.failed("pulling from", "broker-a", BrokerRefused(16, "no", "broker-a"), 1)
    outages.worked("pulling from", 2)
    assert [each.split("(")[0][:30] for each in caplog.messages[2:]] == [
        "pulling from broker-a works ag"
    ]
    assert len(caplog.messages) == 3


def test_a_queue_that_another_member_has_is_no_part_of_it(outages, caplog):
    fail(outages, 1, 2)
    outages.forget("pulling from", 2)
    outages.worked("pulling from", 1)
    assert caplog.messages[1:] == ["pulling from broker-a works again"]


def test_outages_are_bounded(outages):
    for number in range(5_000):
        outages.failed("refreshing routes", f"of {number}", AWAY, number)
        outages.worked("refreshing routes", number)
    assert len(outages._known) <= 1_000


def test_of_very_many_that_last_the_newest_is_not_forgotten(outages, caplog):
    for number in range(1_001):
        outages.failed("pulling from", f"broker-{number}", AWAY, number)
    for _ in range(3):
        outages.failed("pulling from", "broker-1000", AWAY, 1_000)
    assert sum("broker-1000 " in line for line in caplog.messages) == 1


def test_rates_are_of_the_last_minute_and_failures_of_the_last_hour(clock):
    counts = Counts(clock)
    orders = counts.of("orders")
    orders.called(0.1, 5, is_consumed=False)
    for _ in range(12):  # Two minutes in which nothing else happens.
        clock.turn(10)
        counts.sample()
    orders.called(0.2, 30, is_consumed=True)
    orders.called(0.4, 6, is_consumed=False)
    orders.pulls, orders.pulled, orders.pull_ms = 2, 36, 30.0
    clock.turn(10)
    rates = counts.rates()["orders"]
    assert astuple(rates) == pytest.approx((15.0, 0.6, 300.0, 0.5, 0.1, 11))


def test_a_consumer_that_has_just_begun_has_no_rates():
    counts = Counts(HandClock())
    counts.of("orders")
    assert counts.rates() == {"orders": ConsumeRates()}


def test_totals_are_copies():
    counts = Counts(HandClock())
    counts.of("orders").called(1.0, 1, is_consumed=True)
    totals = counts.totals()
    counts.of("orders").called(1.0, 1, is_consumed=True)
    assert totals == {"orders": TopicCounts(calls=1, consume_ms=1000.0, consumed=1)}
