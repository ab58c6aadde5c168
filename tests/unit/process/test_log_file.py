"""The log as JSON and in a file that rotates, where the environment asks for it."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from cometmq.model.errors import SettingsError
from cometmq.process.log_file import FILE, FORMAT, JsonLineFormatter, RotatedFile, asked_log
from cometmq.process.program_log import CountingHandler


def record(message: str, *args: object, error: object = None) -> logging.LogRecord:
    return logging.LogRecord("one", logging.ERROR, __file__, 1, message, args, error)  # type: ignore[arg-type]


def test_a_line_is_an_object_whatever_a_peer_wrote():
    for text in ('"quoted"', "two\nlines", "\x1b[31m", "\u202e", "ü\udcff", "x" * 100_000):
        line = JsonLineFormatter().format(record("said %s", text))
        assert line.isascii()
        assert "\n" not in line
        told = json.loads(line)
        assert (told["level"], told["logger"]) == ("ERROR", "one")
        assert told["message"].startswith("said ")
        assert len(line) < 20_000


def test_an_error_has_its_trace():
    told = {}
    try:
        int("why")
    except ValueError:
        told = json.loads(JsonLineFormatter().format(record("failed", error=sys.exc_info())))
    assert told["message"] == "failed"
    assert "ValueError: invalid literal" in told["trace"]


def test_a_file_rotates_and_goes_on_where_it_was(tmp_path):
    path = tmp_path / "broker.log"
    for start in (0, 10):  # The second time as after a restart.
        file = RotatedFile(path, size_max=20, files_max=3)
        for number in range(start, start + 10):
            file.write(f"line {number:02d}\n")
        file.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "broker.log", "broker.log.1", "broker.log.2",
    ]  # fmt: skip
    kept = "".join(
        (tmp_path / name).read_text() for name in ("broker.log.2", "broker.log.1", "broker.log")
    )
    assert kept == "".join(f"line {number}\n" for number in range(14, 20))


def test_repeats_are_counted_in_a_file_too(tmp_path):
    _, stream = asked_log({FILE: str(tmp_path / "a.log")})
    handler = CountingHandler(stream)
    handler.setFormatter(JsonLineFormatter())
    for number in range(50):
        handler.emit(record("the same %d", number))
    handler.close()
    assert stream is not None
    stream.flush()
    lines = [json.loads(line) for line in (tmp_path / "a.log").read_text().splitlines()]
    assert len(lines) == 11
    assert lines[-1]["message"].startswith("40 more like this")


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({FORMAT: "xml"}, "it must be json or text"),
        ({FILE: "/proc/none/a.log"}, "name a writable file"),
    ],
)
def test_what_cannot_be_is_refused_in_words(asked, word):
    with pytest.raises(SettingsError, match=word):
        asked_log(asked)


def test_nothing_asked_is_as_ever():
    assert asked_log({}) == (None, None)


def test_a_log_file_led_elsewhere_by_a_link(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    (tmp_path / "a.log").symlink_to(victim)
    with pytest.raises(SettingsError, match="this is a symbolic link"):
        asked_log({FILE: str(tmp_path / "a.log")})
    assert victim.read_text() == "as it was"
    asked_log({FILE: str(tmp_path / "b.log")})
    assert not (tmp_path / "b.log").stat().st_mode & 0o007
