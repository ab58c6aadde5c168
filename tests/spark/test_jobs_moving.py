"""Jobs that send, and jobs that keep a table of the newest: replay, dead letters, compact, cdc."""

import json
from contextlib import contextmanager
from dataclasses import replace

import pytest

from cometmq import (
    Admin,
    ConsumeFrom,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushConsumerSettings,
)
from cometmq.cli import pipeline
from cometmq.model.exit_status import ExitStatus
from cometmq.spark.jobs import cdc, compact, dlq, replay, sending, sql, trace
from tests.spark.conftest import load, save
from tests.spark.test_jobs import place
from tests.support.processes import wait_until

# Several queries of Spark each, on whatever machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
SECONDS_MAX = 60.0


def ids_of(rows):
    return sorted(row.msgId for row in rows.select("msgId").collect())


def test_a_replay_keeps_ids_says_where_they_were_and_is_done_once(
    spark, cluster, topic, send, tmp_path
):
    send(0, 90)
    given = replay.ReplayOptions(
        to_topic=f"{topic}-again",
        where="int(cast(body AS string)) < 60",
        batch_rows=50,
        state=str(tmp_path),
        **place(cluster, topic),
    )
    assert replay.run(spark, replace(given, dry_run=True)).counts == {"rows": 90}
    assert replay.run(spark, given).counts["rows"] == 60
    origin = load(spark, cluster, topic)
    again = load(spark, cluster, f"{topic}-again")
    assert ids_of(again) == ids_of(origin.where(given.where))
    places = {
        row.msgId: f"{topic}:{row.brokerName}:{row.queueId}:{row.queueOffset}"
        for row in origin.collect()
    }
    for row in again.collect():
        assert row.properties["REPLAY_OF"] == places[row.msgId]
    assert replay.run(spark, given).counts["rows"] == 60
    assert load(spark, cluster, f"{topic}-again").count() == 60


@contextmanager
def dying_senders(monkeypatch, most=None):
    """Sends of a replay fail behind a micro-batch, or so many rows of it, and take the job with them."""
    real = sending.SendTarget.send

    def dies_after_sending(target, batch, number):
        real(target, batch if most is None else batch.limit(most), number)
        raise OSError("the power is gone")

    with monkeypatch.context() as patched:
        patched.setattr(sending.SendTarget, "send", dies_after_sending)
        with pytest.raises(Exception, match="the power is gone"):
            yield


def test_a_replay_killed_between_sending_and_checkpoint_sends_none_twice(
    spark, cluster, topic, send, tmp_path, monkeypatch
):
    send(0, 80)
    given = replay.ReplayOptions(
        to_topic=f"{topic}-again", batch_rows=40, state=str(tmp_path), **place(cluster, topic)
    )
    with dying_senders(monkeypatch):
        replay.run(spark, given)
    (manifest,) = (tmp_path / "_jobs").glob("replay-*.json")
    assert json.loads(manifest.read_text())["status"] == "failed"
    assert json.loads(manifest.read_text())["error"] == "the power is gone"
    assert replay.run(spark, given).counts["rows"] == 80
    again = load(spark, cluster, f"{topic}-again")
    assert ids_of(again) == ids_of(load(spark, cluster, topic))


def test_messages_of_a_batch_have_one_id_and_each_is_replayed_when_the_job_died_between_them(
    spark, cluster, topic, tmp_path, monkeypatch
):
    """The broker stores a batch's id over those of its messages, as Java's does."""
    goal = f"{topic}-again"
    with Producer(cluster.nameserver) as producer:
        producer.send_batch([Message(topic, str(number).encode()) for number in range(10)])
    given = replay.ReplayOptions(to_topic=goal, state=str(tmp_path), **place(cluster, topic))
    with dying_senders(monkeypatch, 3):
        replay.run(spark, given)
    assert load(spark, cluster, goal).count() == 3
    replay.run(spark, given)
    bodies = sorted(bytes(row.body).decode() for row in load(spark, cluster, goal).collect())
    assert bodies == [str(number) for number in range(10)]


def make_dead_letters(cluster, topic, group, count):
    """Send messages that a listener refuses for good."""

    def refuse(_message):
        raise ValueError("I do not want it")

    with (
        Producer(cluster.nameserver) as producer,
        PushConsumer(
            cluster.nameserver,
            group=group,
            subscriptions=[topic],
            listener=refuse,
            settings=PushConsumerSettings(consume_from=ConsumeFrom.FIRST, retries_max=0),
        ),
    ):
        for number in range(count):
            producer.send(Message(topic, str(number).encode(), keys=f"k{number}"))
        wait_until(
            lambda: dead_count(cluster, group) == count,
            seconds=SECONDS_MAX,
            what="dead letters",
        )


def dead_count(cluster, group) -> int:
    with Admin(cluster.nameserver) as admin:
        dead = f"%DLQ%{group}"
        if dead not in admin.topics.list():
            return 0
        return sum(each.message_count for each in admin.topics.offsets(dead).values())


def test_dead_letters_are_replayed_once(spark, cluster, topic, tmp_path):
    group = f"group-of-{topic}"
    given = {"nameserver": cluster.nameserver, "progress": "none"}
    make_dead_letters(cluster, topic, group, 6)
    some = dlq.ReplayDeadOptions(
        group=group, where="keys < 'k3'", state=str(tmp_path), to_topic=f"{topic}-2", **given
    )
    assert dlq.replay_dead(spark, some).counts["rows"] == 3
    rest = replace(some, where="")
    assert dlq.replay_dead(spark, rest).counts["rows"] == 3
    again = load(spark, cluster, f"{topic}-2").collect()
    assert sorted(row["keys"] for row in again) == [f"k{n}" for n in range(6)]


def test_dead_letters_without_an_origin_are_left_out_and_counted(
    spark, cluster, topic, tmp_path
):
    group = f"group-of-{topic}"
    make_dead_letters(cluster, topic, group, 2)
    with Producer(cluster.nameserver, group="dead") as producer:
        producer.send(Message(f"%DLQ%{group}", b"x"))
    given = dlq.ReplayDeadOptions(
        group=group, state=str(tmp_path), nameserver=cluster.nameserver, progress="none"
    )
    report = dlq.replay_dead(spark, given)
    assert (report.counts["rows"], report.counts["homeless"]) == (2, 1)
    assert "1 dead letter has no property with the original topic" in report.findings[0]
    rest = dlq.replay_dead(spark, replace(given, to_topic=topic))
    assert (rest.counts["rows"], rest.findings) == (1, [])
    assert load(spark, cluster, topic).count() == 5


def test_compact_keeps_the_last_message_of_each_key(spark, cluster, topic, tmp_path):
    given = compact.CompactOptions(to=str(tmp_path), **place(cluster, topic))
    rows = spark.sql(
        "SELECT concat('v', id) AS body, concat('k', id % 4) AS keys, "
        "concat('k', id % 4) AS shardingKey FROM range(40)"
    ).coalesce(1)
    save(rows, cluster, topic)
    assert compact.run(spark, given).counts["keys"] == 4
    gone = spark.sql("SELECT '' AS body, 'k1' AS keys, 'k1' AS shardingKey")
    save(gone, cluster, topic)
    report = compact.run(spark, given)
    assert report.counts == {**report.counts, "rows": 41, "keys": 3}
    table = spark.read.parquet(str(next(tmp_path.glob("cometmq_version=*-1"))))
    newest = {row["keys"]: bytes(row.body) for row in table.collect()}
    assert newest == {"k0": b"v36", "k2": b"v38", "k3": b"v39"}
    assert compact.run(spark, given).counts == report.counts


def test_compact_keeps_the_last_few_behind_a_deletion_and_can_be_replayed(
    spark, cluster, topic, tmp_path
):
    given = compact.CompactOptions(to=str(tmp_path), keep_last=2, **place(cluster, topic))
    rows = spark.sql(
        "SELECT if(id = 9, '', concat('v', id)) AS body, concat('k', id % 3) AS keys, "
        "concat('k', id % 3) AS shardingKey FROM range(14)"
    ).coalesce(1)
    save(rows, cluster, topic)
    # k0 has 0 3 6 9 12, of which 9 deletes; k1 has 1 4 7 10 13, k2 has 2 5 8 11.
    assert compact.run(spark, given).counts["kept"] == 5
    save(spark.sql("SELECT 'v14' AS body, 'k0' AS keys, 'k0' AS shardingKey"), cluster, topic)
    report = compact.run(spark, given)
    assert report.counts == {**report.counts, "rows": 15, "keys": 3, "kept": 6}
    (newest,) = tmp_path.glob("cometmq_version=*-1")
    table = spark.read.parquet(str(newest)).select("keys", "body").collect()
    assert sorted((row["keys"], bytes(row.body).decode()) for row in table) == [
        ("k0", "v12"), ("k0", "v14"), ("k1", "v10"), ("k1", "v13"), ("k2", "v11"), ("k2", "v8"),
    ]  # fmt: skip
    again = replay.ReplayOptions(
        nameserver=cluster.nameserver,
        archive=str(newest),
        to_topic=f"{topic}-again",
        state=str(tmp_path),
        progress="none",
    )
    assert replay.run(spark, again).counts["rows"] == 6
    assert load(spark, cluster, f"{topic}-again").count() == 6


CHANGES = (
    {"op": "c", "after": {"id": 1, "name": "a"}, "ts_ms": 10},
    {"op": "c", "after": {"id": 2, "name": "b"}, "ts_ms": 11},
    {"payload": {"op": "u", "after": {"id": 1, "name": "a2"}, "ts_ms": 20}},
    {"op": "u", "after": {"id": 1, "name": "late"}, "ts_ms": 15},
    {"op": "d", "before": {"id": 2, "name": "b"}, "after": None, "ts_ms": 30},
    {"op": "u", "after": {"name": "no key"}, "ts_ms": 40},
)


def test_cdc_has_the_newest_of_each_row_and_keeps_what_does_not_fit(
    spark, cluster, topic, tmp_path
):
    given = cdc.CdcOptions(
        schema="id BIGINT, name STRING", key="id", to=str(tmp_path), **place(cluster, topic)
    )
    with Producer(cluster.nameserver) as producer:
        for change in CHANGES:
            producer.send(Message(topic, json.dumps(change).encode()))
        report = cdc.run(spark, given)
        assert report.counts == {**report.counts, "rows": 6, "keys": 1, "bad": 1}
        assert report.status is ExitStatus.FOUND
        late = {"op": "u", "after": {"id": 2, "name": "comes too late"}, "ts_ms": 12}
        producer.send(Message(topic, json.dumps(late).encode()))
    assert cdc.run(spark, given).counts["keys"] == 1
    rows = spark.read.parquet(str(next(tmp_path.glob("cometmq_version=*-1")))).collect()
    assert [(row.id, row.name) for row in rows] == [(1, "a2")]
    bad = spark.read.parquet(str(tmp_path / "_bad")).collect()
    assert [row.reason for row in bad] == ["the change has no value for a key column"]


def test_sql_asks_over_topics_by_their_names(spark, cluster, topic, send):
    send(0, 12)
    view = topic.replace("-", "_")
    query = f"SELECT count(*) AS n, max(int(string(m.body))) AS top FROM messages m JOIN {view} t USING (msgId)"
    report = sql.run(spark, sql.SqlOptions(query=query, **place(cluster, topic)))
    assert (report.columns, report.rows) == (["n", "top"], [(12, 11)])


def test_traces_are_summed_up_and_the_unconsumed_counted(spark, cluster, topic, tmp_path):
    seen: list[object] = []
    settings = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, trace=True)
    traced = ProducerSettings(trace=True)
    with Producer(cluster.nameserver, group="tracing", settings=traced) as producer:
        for number in range(5):
            producer.send(Message(topic, str(number).encode()))
        with PushConsumer(
            cluster.nameserver,
            group=f"traced-{topic}",
            subscriptions=[topic],
            listener=seen.append,
            settings=settings,
        ):
            wait_until(lambda: len(seen) >= 5, seconds=SECONDS_MAX, what="five messages")
        producer.send(Message(topic, b"nobody is there for it"))
    given = trace.TraceOptions(nameserver=cluster.nameserver, progress="none", to=str(tmp_path))
    report = trace.run(spark, given)
    kinds = {(row[0], row[1]): row[2:4] for row in report.rows}
    assert kinds["Pub", "tracing"] == (6, 0)
    assert kinds["SubAfter", f"traced-{topic}"] == (5, 0)
    assert kinds["delivery", f"traced-{topic}"] == (5, 0)
    assert report.counts["unconsumed"] == 1
    assert trace.run(spark, given).counts == report.counts

    # As a stream, with windows so small that all of them but the last are over.
    small = replace(given, topic=trace.TRACE_TOPIC, window="1ms", late="0s")
    assert trace.follow(spark, small).counts["windows"] >= 3
    told = spark.read.parquet(f"{tmp_path}/windows").groupBy("kind", "group").sum("count")
    counts = {(row[0], row[1]): row[2] for row in told.collect()}
    assert 1 <= counts["Pub", "tracing"] <= 6


def test_any_answer_of_sql_is_json(spark, cluster, topic, send, capsys):
    send(0, 1)
    values = {
        "map(1, X'6b31')": {"1": "k1"},
        "1.50BD": "1.50",
        "interval 90 seconds": "0:01:30",
        "array(struct(X'ff' AS b, map('k', 0.5BD) AS m))": [{"b": "\ufffd", "m": {"k": "0.5"}}],
        "date'2026-05-01'": "2026-05-01",
        "timestamp'2026-05-01 12:00:00'": "2026-05-01T12:00:00",
        "cast('NaN' AS double)": None,
        "true": True,
    }
    query = ", ".join(f"{each} AS c{number}" for number, each in enumerate(values))
    options = sql.SqlOptions(query=f"SELECT {query} FROM messages", **place(cluster, topic))
    pipeline._show(sql.run(spark, options), as_json=True)
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert list(row.values()) == list(values.values())
