"""The log of a program: one line a message, long texts cut, repeats counted."""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from cometmq.model.errors import SettingsError
from cometmq.process import program_log
from cometmq.process.log_file import (
    AUDIT,
    FILE,
    FORMAT,
    LEVEL,
    JsonLineFormatter,
    ProgramLog,
    RotatedFile,
)
from cometmq.process.program_log import UNCOUNTED, CountingHandler, LogLevel, OneLineFormatter


@pytest.fixture
def written(clock):
    """A handler on a clock of ours, and what it wrote."""
    stream = io.StringIO()
    handler = CountingHandler(stream, clock=clock.monotonic)
    handler.setFormatter(OneLineFormatter("%(levelname)s %(name)s: %(message)s"))
    yield handler, stream, clock
    handler.close()


def record(message: str, *args: object, level: int = logging.WARNING, error: object = None):
    return logging.LogRecord("one", level, __file__, 1, message, args, error)  # type: ignore[arg-type]


def fail(text: str) -> None:
    raise ValueError(text)


def lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            ("closing %s: %s", "a\nERROR forged: x\r\x1b[2J\u2028", {"b": "\n"}),
            r"WARNING one: closing a\nERROR forged: x\r\x1b[2J\u2028: b: \n",
        ),
        (("topic %s", "订单 Größe"), "WARNING one: topic 订单 Größe"),
    ],
    ids=["line breaks", "any script"],
)
def test_a_line_break_makes_no_line_and_text_of_any_script_stays_readable(written, said, line):
    handler, stream, _ = written
    handler.handle(record(*said))
    assert lines(stream) == [line]


def test_long_arguments_leave_the_sentence_whole(written):
    handler, stream, _ = written
    handler.handle(record("%s and %s differ", "a" * 4_000_000, "b" * 4_000_000))
    (line,) = lines(stream)
    assert len(line) < 1_000
    assert "(4000000 characters)" in line
    assert line.endswith(" differ")


def test_a_long_message_is_cut_in_its_middle(written):
    handler, stream, _ = written
    handler.handle(record("%s ends", ["x" * 100_000]))
    (line,) = lines(stream)
    assert len(line) < program_log.MESSAGE_MAX + 100
    assert line.endswith(" ends")


def test_a_traceback_keeps_its_lines_and_is_bounded(written):
    handler, stream, _ = written
    try:
        fail("of a peer\nWARNING one: forged " + "x" * 200_000)
    except ValueError:
        handler.handle(record("failed", error=sys.exc_info()))
    first, *others = lines(stream)
    assert first == "WARNING one: failed"
    assert len(others) > 3
    assert all(line.startswith("    ") for line in others)
    assert len(stream.getvalue()) < program_log.TRACEBACK_MAX + 500


def test_what_repeats_is_counted_and_told(written):
    handler, stream, clock = written
    for number in range(100):
        handler.handle(record("closing %s", number))
    handler.handle(record("another %s", 1))
    assert len(lines(stream)) == program_log.LINES_MAX + 1
    clock.turn(1.5)
    handler.handle(record("another %s", 2))
    assert lines(stream)[-2:] == [
        "WARNING one: 90 more like this within 1 s: closing 99",
        "WARNING one: another 2",
    ]


@pytest.mark.parametrize("template", ["%s", "%s: %s", "%.300s"])
def test_no_line_is_left_out_for_a_template_that_says_nothing(written, template):
    handler, stream, clock = written
    texts = [f"unknown setting {number}" for number in range(25)]
    for text in texts:
        handler.handle(record(template, *[text] * template.count("s")))
    assert [line for line in texts if line in stream.getvalue()] == texts
    for _ in range(100):
        handler.handle(record(template, *[texts[0]] * template.count("s")))
    clock.turn(1.5)
    handler.handle(record("later"))
    [told] = [line for line in lines(stream) if "more like this" in line]
    assert texts[0] in told
    assert "%" not in told


def test_what_goes_on_is_told_less_often(written):
    handler, stream, clock = written
    for number in range(100_000):
        clock.turn(0.001)
        handler.handle(record("closing %s", number))
    assert len(lines(stream)) < 20 * (program_log.LINES_MAX + 1)


def test_many_kinds_are_bounded(written):
    handler, stream, clock = written
    for number in range(50_000):
        handler.handle(record(f"closing {number}"))
    assert len(lines(stream)) <= program_log.KINDS_MAX + program_log.LINES_MAX
    clock.turn(2)
    handler.handle(record("later"))
    assert any("lines of many kinds, the last: closing 49999" in line for line in lines(stream))


def test_the_end_of_the_program_tells_the_rest(written):
    handler, stream, _ = written
    for number in range(15):
        handler.handle(record("closing %s", number))
    handler.close()
    assert lines(stream)[-1] == "WARNING one: 5 more like this within 1 s: closing 14"


def test_a_line_that_is_not_counted_is_always_written(written):
    handler, stream, _ = written
    for number in range(1_000):
        each = record("the setting %s", number)
        each.__dict__ |= UNCOUNTED
        handler.handle(each)
    assert len(lines(stream)) == 1_000


class Pair(NamedTuple):
    name: str
    number: int


class Named(NamedTuple):
    name: str

    def __str__(self) -> str:
        return f"the broker {self.name}"


@dataclass
class Place:
    topic: str
    queue: int
    secret: str = field(default="canary", repr=False)


def refused() -> OSError:
    return OSError(errno.EACCES, os.strerror(errno.EACCES), "/store/lock")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Pair("orders", 3), "orders, 3"),
        (Named("broker-a"), "the broker broker-a"),
        (Place("orders", 3), "orders, 3"),
        ({Named("broker-a"): 104, "b": None}, "the broker broker-a: 104, b: None"),
        ([Pair("a", 1), "b"], "a, 1, b"),
        ({1, 2}, "1, 2"),
        (list(range(25)), ", ".join(map(str, range(20))) + ", and 5 more"),
        (b"bytes\xff", "bytes\ufffd"),
        (fail, "the function fail"),
        (refused(), "Permission denied: /store/lock"),
        (OSError("no number"), "no number"),
        (ValueError("a reason"), "a reason"),
        (object(), "an object of the class object"),
        (3.5, "3.5"),
        (None, "None"),
    ],
)
def test_what_a_line_names_stands_in_words(written, value, text):
    handler, stream, _ = written
    handler.handle(record("found %s", value))
    handler.handle(record("%s: %s", 1, value))
    assert lines(stream) == [f"WARNING one: found {text}", f"WARNING one: 1: {text}"]


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


def error_record(message: str, *args: object, error: object = None) -> logging.LogRecord:
    return logging.LogRecord("one", logging.ERROR, __file__, 1, message, args, error)  # type: ignore[arg-type]


def test_a_line_is_an_object_whatever_a_peer_wrote():
    for text in ('"quoted"', "two\nlines", "\x1b[31m", "\u202e", "ü\udcff", "x" * 100_000):
        line = JsonLineFormatter().format(error_record("said %s", text))
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
        told = json.loads(
            JsonLineFormatter().format(error_record("failed", error=sys.exc_info()))
        )
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
    said = error_record("done")
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
