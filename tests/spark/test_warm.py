"""The file of parsed classes is used where it is, asked for where it is built, and not missed else."""

from pathlib import Path

import pytest

from cometmq.spark import warm
from cometmq.spark.java import java_home


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(warm.BUILDING, raising=False)
    return tmp_path


def test_without_the_file_java_is_told_nothing(cache):
    assert warm.java_options(java_home()) == []


def test_the_file_is_used_where_it_is(cache):
    path = warm.archive_path(java_home())
    assert path.is_relative_to(cache)
    path.parent.mkdir(parents=True)
    path.touch()
    assert f"-XX:SharedArchiveFile={path}" in warm.java_options(java_home())


def test_a_file_is_of_one_java(cache, tmp_path):
    assert warm.archive_path(java_home()) != warm.archive_path(tmp_path)


def test_a_job_that_fails_leaves_no_file(cache, monkeypatch):
    monkeypatch.setattr(warm, "_JOB", "raise SystemExit('there is no room')")
    with pytest.raises(warm.NoArchive, match="there is no room"):
        warm.build()
    assert list((cache / "cometmq").iterdir()) == []
