"""Runs of Spark's jobs: what their manifests say is shown, as the jobs write them; damaged and hostile ones are said, never run."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cometmq.dashboard.jobs import RUNS_MAX, SIZE_MAX, job_runs
from cometmq.spark.jobs.manifest import JobFolder, Manifest
from tests.dashboard.web import READER, READER_PASSWORD, Served, Visitor, text_of
from tests.dashboard.world import RIGHT_TO_LEFT, SCRIPT

BEGAN = 1_795_000_000_000


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Outputs of three jobs, with the manifests that the jobs' own code writes."""
    folder = tmp_path_factory.mktemp("outputs")
    done = Manifest(
        "table-1", "table", {}, "done", counts={"rows": 20_000, "bytes": 7}, batch=3
    )
    done.started_ms, done.ended_ms = BEGAN, BEGAN + 10_000
    failed = Manifest("mirror-2", "mirror", {}, "failed", started_ms=BEGAN, ended_ms=BEGAN)
    failed.error = f"no route of {SCRIPT}{RIGHT_TO_LEFT}"
    for name, manifest in (
        ("orders", done),
        ("copies", failed),
        ("orders", Manifest("kafka-3", "kafka", {}, started_ms=BEGAN)),
    ):
        JobFolder(str(folder / name)).save(manifest)
    return folder


@pytest.fixture(scope="module")
def visitor(nameserver: str, output: Path, tmp_path_factory) -> Iterator[Visitor]:
    with Served(tmp_path_factory.mktemp("jobs"), nameserver, "--jobs", str(output)) as served:
        yield Visitor(served).log_in(READER, READER_PASSWORD)


def test_runs_are_shown_as_their_manifests_say(visitor, output):
    page = visitor.get("/jobs")
    text = text_of(page)
    assert "table table-1 done 20,000 2,000 3 " in text
    assert "kafka kafka-3 running" in text
    assert "mirror mirror-2 failed" in text
    assert "no route of <script>" in text
    assert SCRIPT not in page.text
    assert RIGHT_TO_LEFT not in page.text
    assert str(output / "orders") in text
    assert "3 runs" in text
    found = text_of(visitor.get("/jobs", find="MIRR"))
    assert "1 run" in found
    assert "kafka-3" not in found
    assert "No name or id of a job matches" in text_of(visitor.get("/jobs", find="nothing"))
    assert visitor.get("/jobs", page="x").status_code == 400
    assert 'hx-get="/part/jobs' in visitor.get("/part/jobs").text


def test_a_dashboard_without_folders_says_how_to_name_them(reader):
    assert "--jobs FOLDER" in text_of(reader.get("/jobs"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not the manifest"),
        (b"\xff\xfe", "not the manifest"),
        (b"[1]", "not the manifest"),
        (b"[" * 100_000, "not the manifest"),
        (b'{"status": "asleep", "counts": {}, "job": "x"}', "its status is 'asleep'"),
        (b'{"status": "done", "counts": {"rows": "many"}, "job": "x"}', "not the manifest"),
        (b'{"status": "done", "counts": [], "job": "x"}', "not the manifest"),
        (b'{"status": "done", "counts": {"rows": Infinity}, "job": "x"}', "not the manifest"),
        (b" " * (SIZE_MAX + 1), "more than"),
    ],
)
def test_a_manifest_that_is_none_is_said_and_the_others_are_shown(tmp_path, content, said):
    JobFolder(str(tmp_path)).save(Manifest("table-1", "table", {}))
    (tmp_path / "_jobs" / "bad.json").write_bytes(content)
    by_id = {each.id: each for each in job_runs([tmp_path, tmp_path / "missing"])}
    assert by_id["table-1"].status == "running"
    assert by_id["bad"].status == ""
    assert said in by_id["bad"].error


def test_the_newest_are_shown_where_there_are_too_many(tmp_path):
    folder = tmp_path / "_jobs"
    folder.mkdir()
    for number in range(RUNS_MAX + 3):
        told = {"status": "done", "counts": {}, "job": "x"}
        (folder / f"{number:04}.json").write_text(json.dumps(told))
    assert len(job_runs([tmp_path])) == RUNS_MAX
