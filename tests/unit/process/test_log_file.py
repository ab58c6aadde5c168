"""The log as JSON and in a file that rotates, where the environment asks for it."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Iterator

import pytest

from cometmq.model.errors import SettingsError
from cometmq.process.log_file import (
    AUDIT,
    FILE,
    FORMAT,
    LEVEL,
    JsonLineFormatter,
    ProgramLog,
    RotatedFile,
)
from cometmq.process.program_log import UNCOUNTED, CountingHandler, LogLevel


def own_handlers() -> list[CountingHandler]:
    return [each for each in logging.getLogger().handlers if isinstance(each, CountingHandler)]


@pytest.fixture
def process() -> Iterator[None]:
    """The log of this process as a program finds it, and afterwards as it was."""
    root, hooks = logging.getLogger(), (sys.excepthook, threading.excepthook)
    level = root.level
    yield
    for handler in own_handlers():
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)
    logging.getLogger(AUDIT).setLevel(logging.NOTSET)
    logging.captureWarnings(capture=False)
    sys.excepthook, threading.excepthook = hooks


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


def test_repeats_are_counted_in_a_file_too(process, tmp_path):
    ProgramLog({FILE: str(tmp_path / "a.log"), FORMAT: "json"})
    for number in range(50):
        logging.getLogger("one").error("the same %d", number)
    own_handlers()[0].close()
    lines = [json.loads(line) for line in (tmp_path / "a.log").read_text().splitlines()]
    assert len(lines) == 11
    assert lines[-1]["message"] == "40 more like this within 1 s: the same 49"


def test_the_fields_of_a_line_are_fields_of_its_object():
    said = record("done")
    said.__dict__["fields"] = {"user": "admin", "what": "x\n" * 10_000, "reason": None}
    told = json.loads(JsonLineFormatter().format(said))
    assert (told["user"], told["reason"], told["message"]) == ("admin", None, "done")
    assert len(told["what"]) < 3_000


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({FORMAT: "xml"}, "it must be json or text"),
        ({FILE: "/proc/none/a.log"}, "name a writable file"),
        ({LEVEL: "loud"}, "it must be one of debug, info, warning, warn, error"),
    ],
)
def test_what_cannot_be_is_refused_in_words(process, asked, word):
    with pytest.raises(SettingsError, match=word):
        ProgramLog(asked)
    assert not own_handlers()


def test_nothing_asked_is_standard_error(process, capsys):
    log = ProgramLog({})
    logging.getLogger("one").info("said %s", "so")
    log.print("ready")
    log.failed("cannot start")
    said = capsys.readouterr()
    assert said.out == "ready\n"
    first, second = said.err.splitlines()
    assert first.endswith(" INFO one: said so")
    assert second == "cannot start"


def test_each_line_of_a_program_is_json_if_asked(process, capsys):
    log = ProgramLog({FORMAT: "json"})
    logging.getLogger("one").info("said")
    log.print("boot success")
    log.failed("cannot start")
    sys.excepthook(ValueError, ValueError("uncaught"), None)
    thread = threading.Thread(target=int, args=("no number",), name="worker")
    thread.start()
    thread.join()
    said = capsys.readouterr()
    [ready] = map(json.loads, said.out.splitlines())
    assert (ready["level"], ready["message"]) == ("INFO", "boot success")
    messages = [json.loads(line)["message"] for line in said.err.splitlines()]
    assert messages == [
        "said",
        "cannot start",
        "the program ends with an error",
        "the thread worker has ended with an error",
    ]


@pytest.mark.parametrize("asked", ["warning", "WARN", " Warning"])
def test_a_level_leaves_out_lines_but_none_of_the_audit(process, capsys, asked):
    log = ProgramLog({LEVEL: asked})
    one, audit = logging.getLogger("one"), logging.getLogger(AUDIT)
    one.info("left out")
    audit.info("who")
    log.set_level(LogLevel.debug)
    one.debug("written")
    log.set_level(LogLevel.error)
    one.warning("left out")
    audit.info("when")
    words = [line.rpartition(": ")[2] for line in capsys.readouterr().err.splitlines()]
    assert words == ["who", "written", "when"]


def write_lines(first: int) -> None:
    for number in range(first, first + 500):
        logging.getLogger("one").warning("line %d ends", number, extra=UNCOUNTED)


def test_no_line_is_lost_while_the_file_is_moved_and_opened_anew(process, tmp_path):
    path = tmp_path / "a.log"
    log = ProgramLog({FILE: str(path)})
    writers = [threading.Thread(target=write_lines, args=(first,)) for first in (0, 500, 1000)]
    for writer in writers:
        writer.start()
    for number in range(20):
        path.rename(tmp_path / f"moved.{number}")
        log.reopen()
    for writer in writers:
        writer.join()
    own_handlers()[0].close()
    text = "".join(each.read_text() for each in tmp_path.iterdir())
    assert all(text.count(f"line {number} ends") == 1 for number in range(1_500))
    assert "was opened anew (SIGHUP)" in text
    assert path.exists()


def test_a_file_that_cannot_be_opened_anew_stays_open(process, tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    log = ProgramLog({FILE: str(folder / "a.log")})
    moved = tmp_path / "moved"
    folder.rename(moved)
    log.reopen()
    logging.getLogger("one").error("afterwards")
    text = (moved / "a.log").read_text()
    assert "cannot be opened anew, so lines go on into the old file: No such file" in text
    assert "afterwards" in text


def test_a_rotation_that_fails_loses_nothing(tmp_path, capsys):
    path = tmp_path / "a.log"
    file = RotatedFile(path, size_max=20, files_max=3)
    (tmp_path / "a.log.1").mkdir()  # A file cannot take its place.
    (tmp_path / "a.log.2").mkdir()
    (tmp_path / "a.log.2" / "not empty").touch()
    for number in range(10):
        file.write(f"line {number:02d}\n")
    file.close()
    assert path.read_text() == "".join(f"line {number:02d}\n" for number in range(10))
    assert "a.log cannot be rotated" in capsys.readouterr().err


def test_a_log_file_led_elsewhere_by_a_link(process, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    (tmp_path / "a.log").symlink_to(victim)
    with pytest.raises(SettingsError, match="this is a symbolic link"):
        ProgramLog({FILE: str(tmp_path / "a.log")})
    assert victim.read_text() == "as it was"
    ProgramLog({FILE: str(tmp_path / "b.log")})
    assert not (tmp_path / "b.log").stat().st_mode & 0o007
