"""Jobs over store directories and between clusters: verify, rebuild-index, mirror, Kafka."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cometmq import Admin, Message, Producer
from cometmq.embedded import Embedded
from cometmq.model.errors import SettingsError, StoreDamaged
from cometmq.model.exit_status import ExitStatus
from cometmq.offline import archive as kernel
from cometmq.spark.jobs import archive, kafka, mirror, rebuild, replay, stats, verify
from cometmq.spark.jobs.job import Report
from tests.spark.conftest import load
from tests.spark.test_jobs import place

pytestmark = pytest.mark.slow

MESSAGES = 120


@pytest.fixture(scope="module")
def closed(tmp_path_factory) -> Path:
    """A store that its broker has left: messages of two topics with keys."""
    folder = tmp_path_factory.mktemp("closed")
    with Embedded(folder) as cluster, Producer(cluster.nameserver) as producer:
        for number in range(MESSAGES):
            topic = f"t{number % 2}"
            producer.send(Message(topic, str(number).encode(), keys=f"k{number}"))
    return folder / "store"


@pytest.fixture
def store(closed, tmp_path) -> Path:
    return Path(shutil.copytree(closed, tmp_path / "store"))


def queue_bytes(store: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(store)): path.read_bytes()
        for path in store.glob("consumequeue/*/*/*")
    }


def log_size(store: Path) -> int:
    return next(store.glob("commitlog/*")).stat().st_size


def test_verify_finds_nothing_in_a_sound_store_and_the_byte_that_was_changed(spark, store):
    given = verify.VerifyOptions(store=str(store), progress="none")
    sound = verify.run(spark, given)
    assert sound.status is ExitStatus.WELL
    assert sound.counts["rows"] >= MESSAGES
    assert sound.counts["index entries"] >= 2 * MESSAGES, "an id and a key each"
    log = next(store.glob("commitlog/*"))
    content = log.read_bytes()
    at = content.index(b"\x00\x00\x00\x0277\x02t1") + 4  # Its body: "77".
    log.write_bytes(content[:at] + b"\xff" + content[at + 1 :])
    damaged = verify.run(spark, given)
    assert damaged.status is ExitStatus.FOUND
    assert damaged.counts["errors"] >= 1


def test_rebuilt_queues_are_those_that_the_broker_wrote(spark, store):
    before = queue_bytes(store)
    given = rebuild.RebuildOptions(store=str(store), progress="none")
    checking = rebuild.RebuildOptions(store=str(store), check=True, progress="none")
    assert rebuild.run(spark, checking).findings == []
    name, content = next(each for each in before.items() if "/t1/" in each[0])
    (store / name).write_bytes(b"\x01" + content[1:])
    assert rebuild.run(spark, checking).findings == [f"{name}: differs from the log"]
    report = rebuild.run(spark, given)
    assert report.counts["queue entries"] >= MESSAGES
    assert report.counts["keys"] >= 2 * MESSAGES
    assert queue_bytes(store) == before
    assert not (store / "rebuilt").exists()
    assert rebuild.run(spark, checking).findings == []


def test_damage_of_a_log_is_a_finding_and_a_log_without_a_record_is_refused(
    spark, store, tmp_path
):
    def jobs(name: str) -> Iterator[Callable[[], Report]]:
        given = rebuild.RebuildOptions(store=str(store), check=True, progress="none")
        yield lambda: rebuild.run(spark, given)
        to = archive.ArchiveOptions(
            store=str(store), to=str(tmp_path / name), topic="t0", progress="none"
        )
        yield lambda: archive.archive(spark, to)

    log = next(store.glob("commitlog/*"))
    content = log.read_bytes()
    log.write_bytes(bytes(20) + content[20:])
    for run in jobs("damaged"):
        report = run()
        assert report.status is ExitStatus.FOUND
        assert f"{log} at byte 0 (physical offset 0): " in report.findings[0]
    log.write_bytes(b"\x5a" * len(content))
    for run in jobs("unreadable"):
        with pytest.raises(
            StoreDamaged, match=f"{log} at byte 0 .* The files of this log have no record"
        ):
            run()


def test_a_store_is_counted_and_replayed_without_its_broker(
    spark, cluster, topic, store, tmp_path
):
    counted = stats.run(
        spark, stats.StatsOptions(store=str(store), topic="t0,t1", progress="none")
    )
    assert [row[:2] for row in counted.rows] == [("t0", MESSAGES // 2), ("t1", MESSAGES // 2)]
    given = replay.ReplayOptions(
        **{**place(cluster, "t1"), "store": str(store)},
        to_topic=topic,
        state=str(tmp_path / "state"),
    )
    assert replay.run(spark, given).counts["rows"] == MESSAGES // 2
    again = sorted(int(bytes(row.body)) for row in load(spark, cluster, topic).collect())
    assert again == list(range(1, MESSAGES, 2))


def test_an_archive_becomes_the_same_store_again(spark, store, tmp_path):
    archived, to = str(tmp_path / "archive"), tmp_path / "again"
    given = archive.ArchiveOptions(store=str(store), to=archived, raw=True, progress="none")
    report = archive.archive(spark, given)
    assert report.counts["rows"] >= MESSAGES
    assert archive.archive(spark, given).counts == report.counts
    back = archive.RestoreOptions(archive=archived, to=str(to), progress="none")
    restored = archive.restore(spark, back)
    assert (restored.status, restored.counts["rows"]) == (
        ExitStatus.WELL,
        report.counts["rows"],
    )
    assert f"mappedFileSizeCommitLog={log_size(store)}" in restored.notes[0]
    for log in store.glob("commitlog/*"):
        assert (to / "commitlog" / log.name).read_bytes() == log.read_bytes()
    assert "already complete" in archive.restore(spark, back).notes[0]
    with pytest.raises(SettingsError, match="is not empty"):
        archive.restore(spark, archive.RestoreOptions(archive=archived, to=str(store)))


def test_an_archive_is_counted_and_replayed(spark, cluster, topic, store, tmp_path):
    archived = str(tmp_path / "archive")
    given = archive.ArchiveOptions(store=str(store), to=archived, progress="none")
    archive.archive(spark, given)
    counted = stats.run(
        spark, stats.StatsOptions(archive=archived, topic="t0,t1", progress="none")
    )
    assert [row[:2] for row in counted.rows] == [("t0", MESSAGES // 2), ("t1", MESSAGES // 2)]

    again = replay.ReplayOptions(
        **{**place(cluster, "t0"), "archive": archived},
        to_topic=topic,
        state=str(tmp_path / "state"),
    )
    assert replay.run(spark, again).counts["rows"] == MESSAGES // 2
    assert load(spark, cluster, topic).count() == MESSAGES // 2


def test_a_killed_archive_goes_on_with_the_range_that_it_had(
    spark, store, tmp_path, monkeypatch
):
    given = archive.ArchiveOptions(
        store=str(store), to=str(tmp_path / "archive"), progress="none"
    )
    real = kernel.finish_archive

    def dies(*_given, **_named):
        raise OSError("the power is gone")

    monkeypatch.setattr(kernel, "finish_archive", dies)
    with pytest.raises(OSError, match="the power is gone"):
        archive.archive(spark, given)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert files
    monkeypatch.setattr(kernel, "finish_archive", real)
    assert archive.archive(spark, given).counts["files"] == len(files)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == files


def test_a_mirror_keeps_queues_in_order_and_maps_their_offsets(spark, cluster, topic, tmp_path):
    with Embedded() as other, Producer(cluster.nameserver) as producer:
        queues = producer.queues(topic)
        send = lambda start, end: [  # noqa: E731
            producer.send(Message(topic, str(n).encode()), queue=queues[n % 3])
            for n in range(start, end)
        ]
        send(0, 60)
        given = mirror.MirrorOptions(
            source=cluster.nameserver,
            target=other.nameserver,
            topics=topic,
            state=str(tmp_path),
            progress="none",
        )
        assert mirror.run(spark, given).counts["rows"] == 60
        send(60, 90)
        assert mirror.run(spark, given).counts["rows"] == 90
        columns = ("queueId", "queueOffset", "body", "msgId")
        here, there = (
            sorted(tuple(row) for row in load(spark, each, topic).select(*columns).collect())
            for each in (cluster, other)
        )
        assert here == there
        offsets = spark.read.parquet(str(tmp_path / "offsets")).collect()
        assert {(row.sourceQueue, row.sourceOffset) for row in offsets} == {
            (queue, last) for queue in range(3) for last in (19, 29)
        }
        assert all(row.sourceOffset == row.targetOffset for row in offsets)


def test_a_mirror_keeps_the_queue_to_which_it_copies_one_when_the_target_gets_more(
    cluster, topic
):
    with (
        Embedded() as other,
        Admin(other.nameserver) as there,
        Admin(cluster.nameserver) as here,
    ):
        here.topics.create(topic, queues=4)
        there.topics.create(topic, queues=2)
        names = cluster.nameserver, other.nameserver, [topic]
        first = mirror.prepare(*names, {})
        there.topics.create(topic, queues=3)
        again = mirror.prepare(*names, first)
        assert again == first != mirror.prepare(*names, {})
        there.topics.create(topic, queues=1)
        assert {queue.queue_id for queue in mirror.prepare(*names, first).values()} == {0}


def test_a_mirror_of_a_cluster_to_itself_is_refused_by_its_brokers(cluster, topic):
    with Admin(cluster.nameserver) as here:
        here.topics.create(topic)
    with pytest.raises(SettingsError, match="are the same cluster"):
        mirror.prepare(cluster.nameserver, f"x.invalid:1;{cluster.nameserver}", [topic], {})


def test_kafka_without_its_jar_says_which_package_it_needs(spark, cluster, topic, tmp_path):
    export = kafka.ExportOptions(
        kafka="localhost:1", to_topic="t", state=str(tmp_path), **place(cluster, topic)
    )
    with pytest.raises(SettingsError, match="spark-sql-kafka"):
        kafka.export_kafka(spark, export)
    records = spark.sql(
        "SELECT 't' AS topic, 3 AS partition, 7L AS offset, CAST('k' AS BINARY) AS key, "
        "CAST('v' AS BINARY) AS value, array(struct('h' AS key, CAST('x' AS BINARY) AS value)) "
        "AS headers"
    )
    (row,) = kafka.messages_of(records).collect()
    assert (bytes(row.body), row["keys"], row.properties["h"]) == (b"v", "k", "x")
    assert json.loads(row.properties["KAFKA_OF"]) == {"topic": "t", "partition": 3, "offset": 7}
    # A header may stand twice or have no value, and a record may have gone round before.
    twice = records.selectExpr(
        "topic",
        "partition",
        "offset",
        "key",
        "value",
        "transform(array('h=x', 'KAFKA_OF={}', 'n', 'h=y'), each -> struct(split_part(each, '=', 1) "
        "AS key, CAST(nullif(split_part(each, '=', 2), '') AS BINARY) AS value)) AS headers",
    )
    (again,) = kafka.messages_of(twice).collect()
    assert again.properties == {"h": "y", "n": "", "KAFKA_OF": row.properties["KAFKA_OF"]}
