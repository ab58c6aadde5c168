"""Latencies by class, totals at midnight, and what the counters say of a turn."""

from __future__ import annotations

from typing import Any

import pytest

from cometmq.broker.counters.counters import Counters, MidnightTotals
from cometmq.broker.counters.latencies import BOUNDS_US, Latencies
from cometmq.store.consume_queue import ConsumeQueue
from tests.support.hand_clock import HandClock

DAY_MS = 86_400_000


def test_a_percentile_is_true_to_a_quarter():
    latencies = Latencies()
    for time_us in range(1, 10_001):
        latencies.add(time_us)
    assert latencies.percentile_ms(0.99) == pytest.approx(9.9, rel=0.25)
    assert latencies.percentile_ms(0.5) == pytest.approx(5.0, rel=0.25)
    assert (latencies.max_us, latencies.count) == (10_000, 10_000)


def test_a_percentile_is_of_the_last_minutes_and_nothing_is_0():
    latencies = Latencies()
    assert latencies.percentile_ms(0.99) == 0
    latencies.add(60_000_000)
    assert latencies.percentile_ms(0.99) == 60_000
    latencies.turn()
    latencies.add(10, 100)
    latencies.turn()
    assert latencies.percentile_ms(0.99) == 0.01
    latencies.turn()
    assert latencies.percentile_ms(0.99) == 0


def test_times_of_puts_are_those_of_clients_and_of_the_broker_itself():
    counters = Counters(HandClock())
    counters.sends.add(5_000, 2)
    counters.sends.add(90_000, 2)
    counters.sends.turn()
    counters.sends.turn()
    counters.sends.add(7_000)
    puts: Any = [(ConsumeQueue("orders", 0),)]
    counters.follow(puts[0][0])
    counters.count_puts(puts, [(0, 0, 1)], counters.now() - 0.25)
    both = counters.put_latencies
    assert (both.count, both.total_us, both.max_us) == (6, 447_000, 250_000)
    assert both.percentile_ms(0.5) == pytest.approx(7.0, rel=0.25), "of the last minutes alone"
    assert both.distribution() == (
        "[<=0ms]:0 [0~10ms]:3 [10~50ms]:0 [50~100ms]:2 [100~200ms]:0 [200~500ms]:1 [500ms~1s]:0"
        " [1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:0"
    )
    assert counters.sends.count == 5


def test_times_are_in_javas_classes_too():
    latencies = Latencies()
    for time_us in (0, 999, 1_000, 1_001, 10_001, 700_000, 20_000_000):
        latencies.add(time_us)
    told = dict(each.split(":") for each in latencies.distribution().split(" "))
    assert told["[<=0ms]"] == "3"
    assert (told["[0~10ms]"], told["[10~50ms]"], told["[500ms~1s]"]) == ("1", "1", "1")
    assert told["[10s~]"] == "1"
    assert sum(map(int, told.values())) == 7
    assert list(BOUNDS_US) == sorted(set(BOUNDS_US))


def test_a_morning_has_what_was_counted_before_midnight():
    totals = MidnightTotals(0, (0, 0))
    totals.note(1_000, (5, 1))
    assert (totals.today, totals.yesterday) == ((0, 0), (0, 0))
    totals.note(DAY_MS + 1_000, (6, 2))
    assert totals.today == (5, 1)
    totals.note(2 * DAY_MS + 1_000, (9, 2))
    assert (totals.today, totals.yesterday) == ((6, 2), (5, 1))


def test_a_day_has_what_is_stored_in_topics_of_users():
    """The broker's own name is a topic of the system's, to which tools send."""
    counters = Counters(HandClock(), {"broker-a"}.__contains__)
    for topic, count in (("orders", 2), ("broker-a", 3)):
        queue = ConsumeQueue(topic, 0)
        counters.follow(queue)
        puts: Any = [(queue,)] * count
        counters.count_puts(puts, [(0, 0, 1)] * count, counters.now())
    counters.count_handed_out("orders", "TOOLS_CONSUMER", 0, 4, 1, counters.now())
    assert counters.put_count == 5
    assert counters.of_today == (2, 4)


def test_each_run_of_a_queue_goes_to_its_queue_its_topic_and_all():
    counters = Counters(HandClock())
    queues = [ConsumeQueue(topic, number) for topic in ("a", "b") for number in range(2)]
    for queue in queues:
        counters.follow(queue)
    order = [0, 0, 1, 2, 2, 3, 0, 3]
    sizes = [100, 5_000, 100, 600_000, 1, 5_000_000, 1_024, 1_025]
    puts = [(queues[number],) for number in order]
    counters.count_puts(puts, [(0, 0, size) for size in sizes], counters.now())  # type: ignore[arg-type]
    found = {
        (queue.topic, queue.queue_id): (queue.tally.count, queue.tally.size)
        for queue in queues
        if queue.tally is not None
    }
    assert found == {
        ("a", 0): (3, 6_124), ("a", 1): (1, 100), ("b", 0): (2, 600_001), ("b", 1): (2, 5_001_025),
    }  # fmt: skip
    assert counters.puts.of("a").count == 4
    assert counters.puts.of("a").sizes == (3, 0, 1, 0, 0, 0, 0)
    assert counters.puts.of("b").sizes == (1, 1, 0, 1, 0, 0, 1)
    assert (counters.put_count, counters.put_size) == (8, sum(sizes))


def test_names_of_any_length_were_counted_by_themselves():
    """Acknowledgements name any group, and what is given back any topic that it came from."""
    counters = Counters(HandClock())
    for number in range(100):
        counters.acks.of("orders", f"{number}" + "g" * 30_000).add(1, 0, 0)
        counters.sent_back.of(f"{number}" + "t" * 30_000, "group").add(1, 0, 0)
        counters.events.add("rocketmq_commit_messages_total", f"{number}" + "t" * 30_000)
        counters.events.took("any", f"{number}" + "t" * 30_000, time_us=1)
    assert (len(counters.acks), len(counters.sent_back)) == (0, 0)
    assert counters.acks.all.count == 100
    assert not counters.events.of("rocketmq_commit_messages_total")
    assert not counters.events.times_of("any")
