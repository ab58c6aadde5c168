"""A topic archived and compared: the same messages in the topic, its archive and its store, and what is missing named."""

import json
import shutil
from dataclasses import replace

import pytest

from cometmq import Message, Producer
from cometmq.embedded import Embedded
from cometmq.model.errors import SettingsError
from cometmq.model.exit_status import ExitStatus
from cometmq.spark.jobs import archive, topic_archive, verify
from cometmq.spark.jobs.topic_archive import TopicArchive

pytestmark = pytest.mark.slow

COUNT = 60
FAR = "9000000000000"  # ms: all that is there, however young.


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The folder of a cluster that runs."""
    return tmp_path_factory.mktemp("live")


@pytest.fixture(scope="module")
def live(place):
    with Embedded(place) as cluster:
        yield cluster


def send(cluster, topic, start, end):
    with Producer(cluster.nameserver) as producer:
        for number in range(start, end):
            producer.send(Message(topic, str(number).encode(), keys=f"k{number}"))


def numbers(spark, to):
    rows = spark.read.parquet(f"{to}/topic=*").select("body", "valid").collect()
    assert all(row.valid for row in rows)
    return sorted(int(bytes(row.body)) for row in rows)


def test_a_topic_is_archived_once_and_compared_with_its_store_and_its_archive(
    spark, live, place, topic, tmp_path
):
    send(live, topic, 0, COUNT)
    to = tmp_path / "archive"
    given = archive.ArchiveOptions(
        nameserver=live.nameserver, topic=topic, to=str(to), progress="none"
    )
    assert archive.archive(spark, replace(given, dry_run=True)).counts == {"rows": COUNT}
    report = archive.archive(spark, given)
    assert (report.status, report.counts["rows"]) == (ExitStatus.WELL, COUNT)
    assert numbers(spark, to) == list(range(COUNT))
    before = {path: path.stat().st_mtime_ns for path in to.rglob("*") if path.is_file()}
    assert archive.archive(spark, given).counts == report.counts
    assert {path: path.stat().st_mtime_ns for path in before} == before

    send(live, topic, COUNT, COUNT + 5)
    with_archive = verify.VerifyOptions(
        nameserver=live.nameserver, topic=topic, against=str(to), until=FAR, progress="none",
        to=str(tmp_path / "verdict"),
    )  # fmt: skip
    same = verify.run(spark, with_archive)
    assert (same.status, same.counts["messages of B"]) == (ExitStatus.WELL, COUNT)
    assert any("5 messages of A were not compared" in note for note in same.notes)
    with_store = replace(with_archive, against=str(place / "store"), to="")
    found = verify.run(spark, with_store)
    assert (found.status, found.counts["messages of B"]) == (ExitStatus.WELL, COUNT + 5)

    lost = max(to.glob("topic=*/*/*.parquet"), key=lambda path: path.stat().st_size)
    lost.unlink()
    missing = verify.run(spark, with_archive)
    assert missing.status is ExitStatus.FOUND
    assert {row[-1] for row in missing.rows} == {"only A has it"}
    (path,) = (tmp_path / "verdict" / "_jobs").glob("verify-*.json")
    manifest = json.loads(path.read_text())
    assert manifest["result"]["findings"] == missing.findings
    assert manifest["counts"]["differences"] == len(missing.rows) > 0

    assert archive.archive(spark, given).counts["rows"] == COUNT + 5


def test_a_killed_archive_of_a_topic_is_finished_with_the_ranges_that_it_had(
    spark, live, topic, tmp_path, monkeypatch
):
    send(live, topic, 0, 20)
    to = tmp_path / "archive"
    given = archive.ArchiveOptions(
        nameserver=live.nameserver, topic=topic, to=str(to), progress="none"
    )

    def dies(*_given):
        raise OSError("the power is gone")

    with monkeypatch.context() as patch:
        patch.setattr(topic_archive.TopicArchive, "finish", dies)
        with pytest.raises(OSError, match="the power is gone"):
            archive.archive(spark, given)
    send(live, topic, 20, 25)
    files = {path: path.stat().st_mtime_ns for path in to.rglob("*.parquet")}
    assert archive.archive(spark, given).counts["rows"] == 20
    assert {path: path.stat().st_mtime_ns for path in to.rglob("*.parquet")} == files
    assert archive.archive(spark, given).counts["rows"] == 25
    assert numbers(spark, to) == list(range(25))


def test_what_retention_took_before_the_archive_is_a_finding(
    spark, live, place, topic, tmp_path, monkeypatch
):
    send(live, topic, 0, 12)
    to = tmp_path / "archive"
    given = archive.ArchiveOptions(
        nameserver=live.nameserver, topic=topic, to=str(to), progress="none"
    )
    plan = TopicArchive.plan

    def with_more(self):
        """As if the queue had once gone on, and all of it were deleted by now."""
        first, *rest = plan(self)
        return [replace(first, end=first.end + 3), *rest]

    monkeypatch.setattr(TopicArchive, "plan", with_more)
    report = archive.archive(spark, given)
    assert report.status is ExitStatus.FOUND
    assert "3 messages were deleted before they were archived" in report.findings[0]
    assert numbers(spark, to) == list(range(12))


def test_archives_of_stores_and_of_topics_do_not_share_a_place(
    spark, live, place, topic, tmp_path
):
    send(live, topic, 0, 3)
    to = str(tmp_path / "archive")
    shutil.copytree(place / "store", tmp_path / "store")
    given = archive.ArchiveOptions(store=str(tmp_path / "store"), to=to, progress="none")
    archive.archive(spark, given)
    other = archive.ArchiveOptions(
        nameserver=live.nameserver, topic=topic, to=to, progress="none"
    )
    with pytest.raises(SettingsError, match="is an archive of a store"):
        archive.archive(spark, other)
    with pytest.raises(SettingsError, match="--store or --topic"):
        archive.archive(spark, archive.ArchiveOptions(to=to))
    with pytest.raises(SettingsError, match="needs --store"):
        archive.archive(spark, replace(other, raw=True))
