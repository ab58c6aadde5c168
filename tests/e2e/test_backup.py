"""What a store has that is restored from an archive: nothing consumed or delivered twice, and nothing skipped."""

import shutil
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
from typer.testing import CliRunner

from cometmq import Message
from cometmq.cli.__main__ import app
from cometmq.embedded.virtual import Virtual
from cometmq.offline import archive
from cometmq.offline.broker_tables import TIMER_CHECK_FILE
from tests.support.pages import ROOT

STORE = ROOT / "tests" / "golden" / "stores" / "clean" / "store"


def command(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["store", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.stdout


def bodies(store: Path) -> Counter[str]:
    """The messages of `orders`, and how often each is there."""
    lines = command("dump", store, "--topic", "orders").splitlines()
    return Counter(orjson.loads(line)["body"] for line in lines)


def test_a_restored_broker_delivers_what_waited_and_not_again_what_was_delivered(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    with Virtual(first) as mq:
        mq.put(
            Message("orders", b"timed: soon", deliver=timedelta(minutes=30, milliseconds=7)),
            Message("orders", b"timed: last", deliver=timedelta(hours=1, milliseconds=7)),
            Message("orders", b"timed: later", deliver=timedelta(hours=10, milliseconds=7)),
            Message("orders", b"level: soon", delay_level=5),
        )
        mq.sleep("2h")
        mq.put(Message("orders", b"level: later", delay_level=18))
        lost_ms = mq.now_ms()
    delivered = Counter(["timed: soon", "timed: last", "level: soon"])
    assert bodies(first / "store") == delivered
    command("archive", first / "store", "--to", tmp_path / "archive", "--raw")
    second.mkdir()
    command("restore", tmp_path / "archive", second / "store")
    with Virtual(second, start_ms=lost_ms) as mq:
        mq.sleep("12h")
    found = bodies(second / "store")
    # The timer's progress is a second; those of the last one that it delivered may come twice, as after a kill.
    found["timed: last"] = min(found["timed: last"], 1)
    assert found == delivered + Counter(["timed: later", "level: later"])


def test_offsets_of_an_archive_are_not_ahead_of_its_log(tmp_path, monkeypatch):
    """The broker goes on while its log is archived; what it commits meanwhile is for the next run."""
    store = tmp_path / "store"
    shutil.copytree(STORE, store, copy_function=shutil.copyfile)
    offsets = store / "config" / "consumerOffset.json"
    before, plan = offsets.read_bytes(), archive.plan_archive

    def goes_on(*arguments: Any, **more: Any) -> Any:
        made = plan(*arguments, **more)
        offsets.write_bytes(before.replace(b"offsetTable", b"laterTable"))
        return made

    monkeypatch.setattr(archive, "plan_archive", goes_on)
    command("archive", store, "--to", tmp_path / "archive", "--raw")
    kept = tmp_path / "archive" / archive.KEPT_CONFIG / "consumerOffset.json"
    assert kept.read_bytes() == before
    command("archive", store, "--to", tmp_path / "archive", "--raw")
    assert kept.read_bytes() == offsets.read_bytes()


def test_a_damaged_progress_of_the_timer_in_an_archive_is_named(tmp_path):
    store, place = tmp_path / "store", tmp_path / "archive"
    shutil.copytree(STORE, store, copy_function=shutil.copyfile)
    command("archive", store, "--to", place, "--raw")
    (place / archive.KEPT_CONFIG / TIMER_CHECK_FILE).write_bytes(b"short")
    done = CliRunner().invoke(app, ["store", "restore", str(place), str(tmp_path / "back")])
    assert done.exit_code == 3
    assert "_archive/config/timercheck of the archive: timercheck has 5 bytes" in done.output
    assert not (tmp_path / "back").exists()
