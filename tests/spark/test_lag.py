"""The job "lag", which asks brokers and runs nothing on Spark."""

import dataclasses
import json

import pyarrow.parquet as pq
import pytest

from cometmq.client import ConsumeFrom, Message, Producer, PushConsumer, PushSettings
from cometmq.errors import GroupNotFound
from cometmq.model.exit_status import ExitStatus, status_of
from cometmq.spark.jobs import lag
from tests.spark.test_jobs import place
from tests.support.processes import free_port, wait_until

SECONDS_MAX = 60.0


@pytest.mark.slow
def test_a_history_has_messages_and_times_of_every_group(cluster, topic, tmp_path):
    group, seen = f"group-of-{topic}", list[object]()
    with Producer(cluster.nameserver) as producer:
        for number in range(8):
            producer.send(Message(topic, str(number).encode()))
        with PushConsumer(
            cluster.nameserver,
            group=group,
            subscriptions=[topic],
            listener=seen.append,
            settings=PushSettings(consume_from=ConsumeFrom.FIRST),
        ):
            wait_until(lambda: len(seen) >= 8, seconds=SECONDS_MAX, what="eight messages")
        for number in range(5):
            producer.send(Message(topic, str(number).encode()))
    given = lag.LagOptions(nameserver=cluster.nameserver, progress="none", to=str(tmp_path))
    report = lag.measure(given)
    table = pq.read_table(tmp_path).to_pylist()
    mine = [row for row in table if row["group"] == group and row["topic"] == topic]
    assert sum(row["behind"] for row in mine) == 5
    assert sum(row["committed"] or 0 for row in mine) == 8
    for row in mine:
        is_known = row["consumed"] is not None
        assert is_known == bool(row["committed"])
        if row["behind"] and is_known:
            assert row["behindMs"] == (row["at"] - row["consumed"]).total_seconds() * 1000
    (manifest,) = (tmp_path / "_jobs").glob("lag-*.json")
    assert json.loads(manifest.read_text())["status"] == "done"
    # Another run adds a sample.
    assert lag.measure(given).columns == report.columns
    assert len(list(tmp_path.glob("day=*/lag-*.parquet"))) == 2
    only = lag.LagOptions(group=group, alarm=0, **place(cluster, topic))
    assert lag.measure(only).status is ExitStatus.FOUND


def test_a_history_goes_on_when_the_cluster_is_away_and_says_so(tmp_path):
    given = lag.LagOptions(
        nameserver=f"127.0.0.1:{free_port()}",
        group="g",
        topic="t",
        to=str(tmp_path),
        samples=2,
        every="10ms",
        progress="none",
    )
    report = lag.measure(given)
    assert report.counts["samples"] == 0
    assert report.status is ExitStatus.FOUND
    assert report.findings[0].startswith("2 samples could not be taken; the last: ")


def test_a_misspelt_group_has_no_lag_of_0(cluster, topic, tmp_path):
    known = lag.LagOptions(nameserver=cluster.nameserver, progress="none")
    assert lag.measure(known).status is ExitStatus.WELL
    for given in (
        dataclasses.replace(known, group="bilings"),
        dataclasses.replace(known, group="bilings", topic=topic, to=str(tmp_path), samples=3),
    ):
        with pytest.raises(GroupNotFound, match="no broker knows the consumer group 'bilings'"):
            lag.measure(given)
    assert ExitStatus.FAILED is status_of(GroupNotFound(""))
