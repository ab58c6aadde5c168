"""`cometmq store expired`: a dry run that names what a broker would delete, and changes nothing."""

import os
import time
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from cometmq.store.retention import Retention
from tests.support.command_line import run
from tests.support.hand_clock import HandClock
from tests.support.store_puts import SMALL, clean, open_store, put, settle

GOLDEN = Path(__file__).parents[1] / "golden" / "stores" / "clean" / "store"
DAY_S = 24 * 3600


def told(*arguments: str | Path) -> str:
    done = run("store", "expired", *map(str, arguments), nameserver=None)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def listed(*arguments: str | Path) -> list[str]:
    return [line["file"] for line in orjson.loads(told(*arguments, "--json"))]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store of seven log files; the first three were last written two days ago."""
    clock = HandClock(int(time.time() * 1000))
    store = open_store(
        tmp_path, replace(SMALL, retention=Retention(delete_hours=frozenset())), clock=clock
    )
    for number in range(26):
        put(store, b"%d " % number + b"x" * 3800)
        put(store, *[b"small"] * 5, topic="small")
    settle(store, clock)
    store.close()
    for path in sorted((tmp_path / "commitlog").iterdir())[:3]:
        os.utime(path, (time.time() - 2 * DAY_S,) * 2)
    return tmp_path


def content(root: Path) -> dict[Path, tuple[bytes, int]]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_what_is_listed_is_what_goes(root: Path):
    before = content(root)
    assert listed(root) == []  # 72 hours by default.
    names = listed(root, "--hours", "24")
    assert content(root) == before
    logs = [str(root / "commitlog" / f"{n * SMALL.commitlog_file_size:020d}") for n in range(3)]
    assert names[:3] == logs
    assert str(root / "consumequeue" / "small" / "0" / "0".zfill(20)) in names
    clock = HandClock(int(time.time() * 1000))
    settings = replace(SMALL, retention=Retention(reserved_ms=DAY_S * 1000))
    store = open_store(root, settings, clock=clock)
    settle(store, clock)
    clean(store)
    store.close()
    assert {str(path) for path in before if not path.exists()} == set(names)


def test_the_conf_file_of_the_broker_counts(
    root: Path, tmp_path_factory: pytest.TempPathFactory
):
    conf = tmp_path_factory.mktemp("conf") / "broker.conf"
    # A fuller disk is another reason to let files go; the one that this runs on may be it.
    conf.write_text("fileReservedTime=24\ndiskMaxUsedSpaceRatio=95\n")
    assert len(listed(root, "-c", conf)) > 3
    assert "deleteWhen" in told(root, "-c", conf)


def test_a_store_of_java_is_looked_at_and_left_alone():
    before = content(GOLDEN)
    told(GOLDEN, "--hours", "1")
    assert content(GOLDEN) == before
