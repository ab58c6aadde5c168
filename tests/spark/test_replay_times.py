"""A replay that keeps the times between messages."""

import itertools
import json
from time import sleep

import pytest
from pyspark.sql import functions as f

from cometmq import Message, Producer
from cometmq.model.errors import SettingsError
from cometmq.spark.jobs import replay, sending
from cometmq.spark.jobs.replay import TimeMap, check_speed
from tests.spark.conftest import load
from tests.spark.test_jobs import place

HOUR_MS = 3_600_000
TIMER_TOPIC = "rmq_sys_wheel_timer"


def test_a_message_is_delivered_as_far_from_the_first_as_it_was_stored():
    times = TimeMap(first_ms=1000, start_ms=50_000, last_ms=4000)
    assert [times.delivery_ms(ms) for ms in (1000, 1001, 4000)] == [50_000, 50_001, 53_000]
    fast = TimeMap(first_ms=1000, start_ms=50_000, last_ms=4000, speed=2.0)
    assert [fast.delivery_ms(ms) for ms in (1000, 1001, 4000)] == [50_000, 50_000, 51_500]
    assert str(fast).endswith("1970-01-01T00:00:50.000+00:00 to 1970-01-01T00:00:51.500+00:00")
    for speed in (0.0, -1.0, float("nan")):
        with pytest.raises(SettingsError, match="--map-speed"):
            check_speed(speed)


def test_a_speed_that_leads_beyond_all_times_is_refused(spark):
    stored = spark.range(2).selectExpr("timestamp_millis(id * 3600000) AS storeTimestamp")
    for speed in (1e-9, 1e-300, 5e-324):
        with pytest.raises(SettingsError, match="due after the year 9999; use a higher speed"):
            TimeMap.over(stored, start="", speed=speed, now_ms=0)


@pytest.fixture
def dies_once(monkeypatch):
    """The first micro-batch is sent, and then the power is gone."""
    real, calls = sending.SendTarget.send, itertools.count()

    def send_and_die(target, batch, number):
        counts = real(target, batch, number)
        if next(calls) == 0:
            raise OSError("the power is gone")
        return counts

    monkeypatch.setattr(sending.SendTarget, "send", send_and_die)


@pytest.mark.slow
@pytest.mark.timeout(240)  # Several queries of Spark, on whatever machine.
@pytest.mark.usefixtures("dies_once")
def test_a_replay_with_times_waits_on_the_broker_and_is_killed_without_doubles(
    spark, cluster, topic, tmp_path
):
    with Producer(cluster.nameserver) as producer:
        for number in range(3):
            producer.send(Message(topic, str(number).encode()))
            sleep(0.01)  # Apart in time.
    stored = {
        row.msgId: int(row.storeTimestamp.timestamp() * 1000)
        for row in load(spark, cluster, topic).collect()
    }
    start_ms = max(stored.values()) + HOUR_MS
    given = replay.ReplayOptions(
        to_topic=f"{topic}-again",
        map_time=True,
        map_start=str(start_ms),
        map_speed=0.5,
        batch_rows=50,
        state=str(tmp_path),
        **place(cluster, topic),
    )
    with pytest.raises(Exception, match="the power is gone"):
        replay.run(spark, given)
    report = replay.run(spark, given)
    assert report.counts["rows"] == 3
    (manifest,) = (tmp_path / "_jobs").glob("replay-*.json")
    times = TimeMap(**json.loads(manifest.read_text())["ranges"][0])
    assert (times.first_ms, times.start_ms) == (min(stored.values()), start_ms)
    assert report.notes == [str(times)]
    waiting = load(spark, cluster, TIMER_TOPIC).where(
        f.col("properties")["REAL_TOPIC"] == given.to_topic
    )
    due = [(row.msgId, int(row.properties["TIMER_DELIVER_MS"])) for row in waiting.collect()]
    assert sorted(due) == sorted((name, times.delivery_ms(ms)) for name, ms in stored.items())
    with pytest.raises(SettingsError, match="need --map-time"):
        replay.run(spark, replay.ReplayOptions(to_topic="x", map_speed=2, topic=topic))
