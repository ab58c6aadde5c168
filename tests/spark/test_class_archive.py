"""The file of parsed classes is used where it is, asked for where it is built, and not missed else."""

import os
import sys
from pathlib import Path

import psutil
import pytest

from cometmq.spark.java import class_archive, java_home, java_options
from cometmq.spark.session import SUBMIT_ARGS
from examples import spark_classes
from tests.support.processes import wait_until


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_without_the_file_java_is_told_of_none(cache):
    assert not any("Archive" in option for option in java_options(java_home()))


@pytest.mark.parametrize(
    ("told", "is_chosen"),
    [("", True), ("-Xmx2g", True), ("-Xmx2g -XX:+UseG1GC", False)],
)
def test_a_user_who_chose_a_collector_keeps_it(cache, monkeypatch, told, is_chosen):
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", told)
    assert ("-XX:+UseParallelGC" in java_options(java_home())) is is_chosen


def test_the_file_is_used_where_it_is(cache):
    path = class_archive(java_home())
    assert path.is_relative_to(cache)
    path.parent.mkdir(parents=True)
    path.touch()
    assert f"-XX:SharedArchiveFile={path}" in java_options(java_home())


def test_a_file_is_of_one_java(cache, tmp_path):
    assert class_archive(java_home()) != class_archive(tmp_path)


def test_a_process_that_has_a_session_starts_others_that_are_told_anew(spark):
    assert spark.range(3).count() == 3
    assert not os.environ.get(SUBMIT_ARGS)
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_what_a_user_tells_java_is_not_what_the_file_is_built_with(cache, monkeypatch):
    monkeypatch.setenv(SUBMIT_ARGS, "--no-such-option pyspark-shell")
    monkeypatch.setattr(
        spark_classes,
        "JOB",
        f"import os; print(os.environ, file=open({str(cache / 'told')!r}, 'w'))",
    )
    with pytest.raises(SystemExit, match="this Java cannot write one"):
        spark_classes.main()
    told = (cache / "told").read_text()
    assert "-XX:ArchiveClassesAtExit=" in told
    assert SUBMIT_ARGS not in told


def test_a_job_that_fails_leaves_no_file(cache, monkeypatch):
    monkeypatch.setattr(spark_classes, "JOB", "raise SystemExit('there is no room')")
    with pytest.raises(SystemExit, match="there is no room"):
        spark_classes.main()
    assert list((cache / "cometmq").iterdir()) == []


def test_a_job_that_does_not_end_is_ended_with_its_java_and_said_in_a_line(cache, monkeypatch):
    pid = cache / "pid"
    # As Spark's JVM: a child that holds the pipes of its parent.
    monkeypatch.setattr(
        spark_classes,
        "JOB",
        "import subprocess, time; child = subprocess.Popen(['sleep', '600']);"
        f"open({str(pid)!r}, 'w').write(str(child.pid)); time.sleep(600)",
    )
    monkeypatch.setattr(spark_classes, "TIMEOUT_S", 5)
    with pytest.raises(SystemExit, match="no file was made: a small Spark job"):
        spark_classes.main()
    assert list((cache / "cometmq").iterdir()) == []
    wait_until(
        lambda: not is_alive(int(pid.read_text())), seconds=10, what="the end of its child"
    )


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for does not."""
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
