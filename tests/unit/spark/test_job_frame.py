"""What jobs share, without Spark: manifests, progress, the rate limit, and which errors are shown how."""

import io
import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryProgressEvent, SourceProgress

from cometmq.cli.pipeline import application
from cometmq.model.errors import SettingsError
from cometmq.model.exit_status import ExitStatus
from cometmq.spark.jobs import archive, rebuild, replay, sql, stats
from cometmq.spark.jobs.catalogue import all_jobs
from cometmq.spark.jobs.cdc import CdcOptions
from cometmq.spark.jobs.checkpoint import checkpointed, query_id
from cometmq.spark.jobs.decoding import schema_of
from cometmq.spark.jobs.error_text import is_usage, message_of
from cometmq.spark.jobs.job import Report
from cometmq.spark.jobs.manifest import JobFolder, Manifest, RunGoesOn, manifest_id
from cometmq.spark.jobs.options import JobOptions, option
from cometmq.spark.jobs.origin import FromOptions, plan, read_batch
from cometmq.spark.jobs.progress import RunProgress
from cometmq.spark.jobs.run import running
from cometmq.spark.jobs.streaming import FlowOptions, RateLimit
from cometmq.spark.jobs.watching import StreamWatch
from cometmq.spark.options import time_ms


@pytest.fixture
def bare() -> SparkSession:
    """A session without a JVM, for what refuses before it needs one."""
    return SparkSession.__new__(SparkSession)


PAGE = Path(__file__).resolve().parents[3] / "docs" / "pipeline.md"


@dataclass(frozen=True, kw_only=True)
class Options(JobOptions):
    topic: str = option("Which.")
    speed: int = option("How fast.", 1, is_what=False)


def test_a_run_is_known_by_what_it_does_not_by_how():
    slow, fast = Options(topic="a"), Options(topic="a", speed=9, progress="none")
    assert manifest_id("copy", slow.what()) == manifest_id("copy", fast.what())
    assert manifest_id("copy", slow.what()) != manifest_id("copy", Options(topic="b").what())
    assert manifest_id("copy", slow.what()) != manifest_id("other", slow.what())


def test_a_run_beside_itself_is_refused_until_the_first_has_ended(tmp_path):
    place, given = str(tmp_path / "ä [1]"), Options(topic="a", progress="none")
    with (
        running("copy", given, place=place),
        # Another run may write there, unless one of both must be alone.
        running("copy", Options(topic="b", progress="none"), place=place),
    ):
        with (
            pytest.raises(RunGoesOn, match=rf"another run writes to {re.escape(place)} "),
            running("copy", given, place=place),
        ):
            pytest.fail("two runs of one manifest")
        manifest = JobFolder(place).load(manifest_id("copy", given.what()))
        assert manifest is not None
        assert (manifest.status, manifest.error) == ("running", "")
    with running("copy", given, place=place):
        pass


@pytest.mark.parametrize("is_first_alone", [True, False])
def test_a_run_that_must_be_alone_and_any_other_are_refused_beside_each_other(
    tmp_path, is_first_alone
):
    one, two = (Options(topic=topic, progress="none") for topic in ("a", "b"))
    with (
        running("cdc", one, place=str(tmp_path), is_alone=is_first_alone),
        pytest.raises(RunGoesOn, match=r"\(place\.lock is locked\)"),
        running("table", two, place=str(tmp_path), is_alone=not is_first_alone),
    ):
        pytest.fail("two runs at one place")


HOLDS = """
import sys, time
from cometmq.spark.jobs.manifest import JobFolder
with JobFolder(sys.argv[1]).held("place"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_killed_run_keeps_no_other_out(tmp_path):
    given = Options(topic="a", progress="none")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, tmp_path], stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with (
                pytest.raises(RunGoesOn, match=r"\(place\.lock is locked\)"),
                running("copy", given, place=str(tmp_path), is_alone=True),
            ):
                pytest.fail("two runs at one place")
        finally:
            holder.kill()
    with running("copy", given, place=str(tmp_path), is_alone=True) as this:
        assert this.manifest.status == "running"


def test_a_report_says_what_this_run_did_and_what_all_did(tmp_path):
    def life(*batches: tuple[int, int], keys: int) -> Report:
        with running("copy", Options(topic="a", progress="none"), place=str(tmp_path)) as this:
            for number, rows in batches:
                this.count_batch(number, {"rows": rows})
            this.manifest.counts["keys"] = keys
            return this.report()

    first, second = life((0, 600_000), keys=7), life((0, 600_000), (1, 1_000), keys=5)
    assert first.summary == "600,000 rows, 7 keys"
    assert second.counts == {"rows": 601_000, "keys": 5}
    assert second.summary == "This run 1,000 rows; in all 601,000 rows, 5 keys"
    assert life(keys=5).summary == "This run 0 rows; in all 601,000 rows, 5 keys"


@pytest.mark.parametrize(("topic", "rows"), [("", 7), ("a/b", 3), ("a/b, c", 7), ("d", 0)])
def test_a_plan_of_an_archive_counts_the_topics_that_are_meant(tmp_path, topic, rows):
    for folder, count in (("a%2Fb", 3), ("c", 4)):
        (tmp_path / f"topic={folder}").mkdir()
        pq.write_table(
            pa.table({"n": range(count)}), tmp_path / f"topic={folder}" / "1.parquet"
        )
    report = plan(FromOptions(archive=str(tmp_path), topic=topic, since="1000", where="true"))
    assert report.counts["rows"] == rows
    assert report.notes == [
        "these are upper limits: the plan ignores --since, --where, which the run applies"
    ]


def test_a_batch_that_runs_twice_is_counted_once():
    manifest = Manifest("id", "copy", {})
    manifest.count_batch(0, {"rows": 10})
    manifest.count_batch(1, {"rows": 5, "bad": 1})
    manifest.count_batch(1, {"rows": 7, "bad": 2})
    assert manifest.counts == {"rows": 17, "bad": 2}
    manifest.count_batch(2, {"rows": 1})
    assert manifest.counts == {"rows": 18, "bad": 2}


def test_a_failed_run_says_why_in_its_manifest_and_a_finished_one_is_left_alone(tmp_path):
    options = Options(topic="a", progress="none")
    rows = [(1, datetime.fromisoformat("2026-05-01T12:00:00.000005"))]
    with (
        pytest.raises(ValueError, match="no more"),
        running("copy", options, place=str(tmp_path)),
    ):
        raise ValueError("no more")
    (path,) = (tmp_path / "_jobs").glob("*.json")
    failed = json.loads(path.read_text())
    assert (failed["status"], failed["error"]) == ("failed", "no more")
    with running("copy", options, place=str(tmp_path)) as run:
        assert not run.is_finished
        run.finish(Report({"rows": 3}, ("n", "first"), rows))
    written = path.read_bytes()
    with running("copy", options, place=str(tmp_path)) as run:
        assert run.is_finished
        again = run.earlier()
        assert (again.counts, again.rows) == ({"rows": 3}, rows)
    assert path.read_bytes() == written


def test_a_manifest_is_read_back_as_it_was_written(tmp_path):
    folder = JobFolder(str(tmp_path))
    manifest = Manifest("copy-1", "copy", {"topic": "a"}, files=["x"], ranges=[{"task": "0-9"}])
    folder.save(manifest)
    assert folder.load("copy-1") == manifest
    assert folder.load("copy-2") is None
    with pytest.raises(SettingsError, match="not a folder that can be opened"):
        JobFolder("nowhere://x")


def test_progress_says_rows_rate_and_the_time_left(clock):
    out = io.StringIO()
    progress = RunProgress("json", "copy", stream=out, clock=clock.monotonic)
    progress.expect(1000, 5_000_000)
    clock.turn(2)
    progress.at_share(1, 4)
    told = json.loads(out.getvalue())
    assert (told["rows"], told["rowsPerSecond"], told["mbPerSecond"]) == (250, 125, 0.62)
    assert told["secondsLeft"] == 6.0
    progress.at(500, 2_500_000)
    assert len(out.getvalue().splitlines()) == 1, "not more than a line a second"
    progress.show(is_last=True)
    assert json.loads(out.getvalue().splitlines()[1])["secondsLeft"] == 2.0


@pytest.mark.parametrize(
    ("end", "latest", "behind"),
    [
        ({"q": {"t": {"b": {"0": 7}}}}, {"q": {"t": {"b": {"0": 9, "1": 4}}}}, 2),
        ({"at": 9}, {"at": 99}, None),  # Of a store.
        ({"logOffset": 3}, None, None),  # Of an archive.
    ],
)
def test_only_a_stream_of_topics_knows_how_far_it_is_behind(end, latest, behind):
    source = SourceProgress("x", "null", json.dumps(end), json.dumps(latest), 1, 1, 1, {})
    progress = RunProgress("none", "copy")
    progress.at(5)
    step = SimpleNamespace(name="copy", sources=[source])
    StreamWatch("copy", progress).onQueryProgress(QueryProgressEvent(cast("Any", step)))
    state = progress.state()
    assert (state["behind"], state["secondsLeft"] is None) == (behind, behind is None)


def test_nothing_is_told_into_a_pipe():
    out = io.StringIO()
    RunProgress("auto", "copy", stream=out).show(is_last=True)
    assert out.getvalue() == ""


def test_a_rate_is_kept_over_the_whole_run(clock):
    pauses: list[float] = []
    limit = RateLimit(100, clock=clock.monotonic, pause=pauses.append)
    clock.turn(0.5)
    limit.wait(150)
    clock.turn(3.5)
    limit.wait(100)
    assert pauses == [1.0]


@pytest.mark.parametrize(
    ("text", "says", "usage"),
    [
        (
            (
                "[DATA_SOURCE] failed: Traceback (most recent call last):\n  File x\n"
                "cometmq.model.errors.SettingsError: no option 'x'\n\n\tat org.apache.X(Y.scala:1)"
            ),
            "no option 'x'",
            True,
        ),
        ("a.b.OtherError: lost\n\tat org.apache.X(Y.scala:1)", "lost", False),
        ("[TABLE] not found\n\nJVM stacktrace:\nx", "[TABLE] not found", False),
        (
            (
                "An error occurred while calling o9.start.\n: org.apache.spark.SparkException: [CANNOT_LOAD] no manager\n"
                "\tat org.apache.X(Y.scala:1)\nCaused by: java.lang.ClassNotFoundException: Class a.S3AFileSystem not found"
            ),
            (
                "Spark has no file system for this place (a.S3AFileSystem): add its jars, as --conf "
                "spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION for s3://, VERSION being that of Spark's hadoop-client-api"
            ),
            True,
        ),
    ],
)
def test_of_sparks_texts_one_line_is_shown(text, says, usage):
    error = RuntimeError(text)
    assert (message_of(error), is_usage(error)) == (says, usage)


def test_sql_and_settings_that_cannot_be_are_wrong_use():
    assert is_usage(AnalysisException("[UNRESOLVED_ROUTINE] Cannot resolve `lengths`"))
    assert is_usage(IllegalArgumentException("no such trigger"))
    assert not is_usage(PySparkException("[USER_RAISED_EXCEPTION] no"))


def test_bounds_of_a_stream_are_named_as_the_options_are():
    with pytest.raises(SettingsError, match=r"--batch-rows 0: it must be at least 1"):
        _ = FlowOptions(batch_rows=0).rows_max
    with pytest.raises(SettingsError, match=r"--rate -1: it must be at least 0"):
        _ = FlowOptions(rate=-1).rows_max


@pytest.mark.parametrize("place", [{"topic": "a"}, {"store": "a"}])
def test_a_wrong_time_is_named_as_the_option_is(place, bare):
    with pytest.raises(SettingsError, match=r"^--until 'soon' is not a time"):
        read_batch(bare, FromOptions(**place, until="soon"))


def test_a_replay_that_follows_itself_is_refused_however_its_topics_are_written(bare):
    given: dict[str, Any] = {
        "topic": "a, b",
        "to_topic": "b",
        "follow": True,
        "nameserver": "h:1",
    }
    with pytest.raises(SettingsError, match="would read what it sends"):
        replay.run(bare, replay.ReplayOptions(**given))
    # Of another cluster it is no circle; what is wrong here is said next.
    with pytest.raises(SettingsError, match="--map-speed"):
        replay.run(bare, replay.ReplayOptions(**given, to_nameserver="i:1", map_speed=2))


@pytest.mark.parametrize(
    ("topics", "names"),
    [
        ("a-b, c, a_b", "'a-b' and 'a_b' would both be the view a_b"),
        ("Paid,paid", "'Paid' and 'paid' would both be the view paid"),
        ("paid,messages", "'paid,messages' and 'messages' would both be the view messages"),
    ],
)
def test_topics_that_sql_could_not_tell_apart_are_refused(bare, topics, names):
    with pytest.raises(SettingsError, match=f"--topic: {names}"):
        sql.run(bare, sql.SqlOptions(query="SELECT 1", topic=topics))


def test_less_than_no_groups_are_refused(bare):
    with pytest.raises(SettingsError, match=r"--top -1: it must be at least 0"):
        stats.run(bare, stats.StatsOptions(topic="a", top=-1))


@pytest.mark.parametrize(
    "text", ['{"id": "a", "jo', '{"id": "a", "job": "b", "options": {}, "more": 1}', "[]"]
)
def test_a_manifest_of_another_version_is_one_line(tmp_path, text):
    folder = JobFolder(str(tmp_path))
    (tmp_path / "_jobs").mkdir()
    (tmp_path / "_jobs" / "copy-1.json").write_text(text)
    with pytest.raises(SettingsError, match=r"copy-1\.json is not a manifest of this version"):
        folder.load("copy-1")


def test_a_place_without_a_query_is_no_checkpoint(tmp_path):
    with pytest.raises(
        SettingsError, match="is not the checkpoint of a query that has started; name"
    ):
        query_id(str(tmp_path))


@pytest.mark.parametrize("content", [b"", b'{"id": "8f', b"{}", b"[]", b"\xff"])
def test_a_damaged_checkpoint_is_one_line(tmp_path, content):
    (tmp_path / "metadata").write_bytes(content)
    with pytest.raises(SettingsError, match=r"/metadata is damaged: it has no id of a query"):
        query_id(str(tmp_path))


@pytest.mark.parametrize("content", [None, b"", b'v1\n{}\n{"q": {', b"v1\n{}"])
def test_damaged_offsets_of_a_checkpoint_are_one_line(tmp_path, content):
    for folder in ("commits", "offsets"):
        (tmp_path / folder).mkdir()
    (tmp_path / "commits" / "3").write_bytes(b"v1\n{}")
    if content is not None:
        (tmp_path / "offsets" / "3").write_bytes(content)
    with pytest.raises(SettingsError, match=r"/offsets/3 is missing or damaged"):
        checkpointed(str(tmp_path))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            b"\x0a\xff\xfe",
            "is not a text file; if it is a Protobuf descriptor set, add --format protobuf",
        ),
        (b'{"type": "struct", "fields": 3}', "is neither an existing file nor columns such as"),
        (
            b'{"type": "struct", "fields": [3]}',
            "is neither an existing file nor columns such as",
        ),
    ],
)
def test_a_file_that_is_no_schema_is_one_line(tmp_path, content, says):
    file = tmp_path / "schema"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=f"--schema .*{says}"):
        schema_of(str(file))


def test_a_store_is_restored_and_rebuilt_on_this_machine_only(bare, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for run in (
        lambda: archive.restore(
            bare, archive.RestoreOptions(archive="a", to="s3://bucket/store")
        ),
        lambda: rebuild.run(bare, rebuild.RebuildOptions(store="a", out="S3://bucket/store")),
    ):
        with pytest.raises(
            SettingsError, match=r"(?i)s3://bucket/store is not a folder of this machine"
        ):
            run()
    assert not [*tmp_path.iterdir()]


def test_a_dry_run_of_a_finished_restore_says_that_it_is_finished(bare, tmp_path):
    given = archive.RestoreOptions(
        archive=str(tmp_path / "a"), to=str(tmp_path / "store"), dry_run=True, progress="none"
    )
    (tmp_path / "store").mkdir()
    done = Manifest(
        manifest_id("restore", given.what()), "restore", {}, "done", counts={"rows": 3}
    )
    JobFolder(str(tmp_path)).save(done)
    report = archive.restore(bare, given)
    assert (report.counts, report.notes) == (
        {"rows": 3},
        [f"run {done.id} is already complete; nothing was changed"],
    )


def test_times_are_iso_or_milliseconds():
    with pytest.raises(SettingsError, match=r"--since: .* not a time; times are ms since 1970"):
        time_ms("1960-01-01T00:00+00:00", "--since")
    with pytest.raises(SettingsError, match=r"--since '0001-01-01' is not a time"):
        time_ms("0001-01-01", "--since")
    assert time_ms("1700000000000", "--since") == 1_700_000_000_000
    assert time_ms("2026-05-01T12:00+00:00", "--since") == 1_777_636_800_000
    with pytest.raises(SettingsError, match=r"--since: 1700000000 ms .* seconds"):
        time_ms("1700000000", "--since")
    with pytest.raises(SettingsError, match=r"--since 'soon' is not a time"):
        time_ms("soon", "--since")


@pytest.mark.parametrize("given", [{}, {"store": "a", "archive": "b"}])
def test_messages_come_from_one_place(given):
    with pytest.raises(SettingsError, match="--topic, --store or --archive"):
        plan(FromOptions(**given))


def commands_of(page: Path) -> list[str]:
    return re.findall(r"`cometmq pipeline ([^`]+)`", page.read_text().replace("\n", " "))


@pytest.mark.parametrize("command", commands_of(PAGE))
def test_a_command_in_the_book_is_one_that_there_is(command):
    if command == "JOB --help":
        return
    words = shlex.split(command)
    # As the command line does: with the jobs of this word alone.
    group: Any = typer.main.get_command(application(words[0]))
    assert hasattr(group, "commands")
    while hasattr(group, "commands"):
        group = group.commands[words.pop(0)]
    assert group.make_context("job", words).params is not None


def test_the_book_has_a_command_for_every_job():
    book = " ".join(commands_of(PAGE))
    assert [job.name for job in all_jobs() if job.name not in book] == []


def test_every_job_has_a_help_and_a_name_of_its_own():
    assert len({job.name for job in all_jobs()}) == len(all_jobs())
    assert all(len(job.help) > 20 for job in all_jobs())
    assert Report(findings=["x"]).status is ExitStatus.FOUND


def test_a_job_that_is_told_no_nameserver_asks_that_of_the_environment(monkeypatch):
    monkeypatch.setenv("NAMESRV_ADDR", "ns-a:9876;ns-b:9876")
    assert CdcOptions(schema="id INT", key="id", to="t").nameserver == "ns-a:9876;ns-b:9876"
    given = CdcOptions(schema="id INT", key="id", to="t", nameserver="ns-c:9876")
    assert given.nameserver == "ns-c:9876"
    monkeypatch.delenv("NAMESRV_ADDR")
    assert CdcOptions(schema="id INT", key="id", to="t").nameserver == "127.0.0.1:9876"
