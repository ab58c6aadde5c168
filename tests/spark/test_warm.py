"""The file of parsed classes is used where it is, asked for where it is built, and not missed else."""

import os
import sys
from pathlib import Path

import pytest

from cometmq.spark import warm
from cometmq.spark.java import java_home


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(warm.BUILDING, raising=False)
    return tmp_path


def test_without_the_file_java_is_told_of_none(cache):
    assert not any("Archive" in option for option in warm.java_options(java_home()))


@pytest.mark.parametrize(
    ("told", "is_chosen"),
    [("", True), ("-Xmx2g", True), ("-Xmx2g -XX:+UseG1GC", False)],
)
def test_a_user_who_chose_a_collector_keeps_it(cache, monkeypatch, told, is_chosen):
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", told)
    assert ("-XX:+UseParallelGC" in warm.java_options(java_home())) is is_chosen


def test_the_file_is_used_where_it_is(cache):
    path = warm.archive_path(java_home())
    assert path.is_relative_to(cache)
    path.parent.mkdir(parents=True)
    path.touch()
    assert f"-XX:SharedArchiveFile={path}" in warm.java_options(java_home())


def test_a_file_is_of_one_java(cache, tmp_path):
    assert warm.archive_path(java_home()) != warm.archive_path(tmp_path)


def test_a_process_that_has_a_session_starts_others_that_are_told_anew(spark):
    assert spark.range(3).count() == 3
    assert not os.environ.get(warm.SUBMIT_ARGS)
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_what_a_user_tells_java_is_not_what_the_file_is_built_with(cache, monkeypatch):
    monkeypatch.setenv(warm.SUBMIT_ARGS, "--no-such-option pyspark-shell")
    monkeypatch.setattr(
        warm, "_JOB", f"import os; print(*os.environ, file=open({str(cache / 'told')!r}, 'w'))"
    )
    with pytest.raises(warm.NoArchive):
        warm.build()
    told = (cache / "told").read_text().split()
    assert warm.BUILDING in told
    assert warm.SUBMIT_ARGS not in told


def test_a_job_that_fails_leaves_no_file(cache, monkeypatch):
    monkeypatch.setattr(warm, "_JOB", "raise SystemExit('there is no room')")
    with pytest.raises(warm.NoArchive, match="there is no room"):
        warm.build()
    assert list((cache / "cometmq").iterdir()) == []
