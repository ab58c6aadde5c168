"""What a consumer counts, and the rates that come of it."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from cometmq.client.consumer.counts import Counts, TopicCounts
from cometmq.codec.bodies.running import ConsumeRates
from tests.support.hand_clock import HandClock


def test_rates_are_of_the_last_minute_and_failures_of_the_last_hour():
    clock = HandClock()
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
