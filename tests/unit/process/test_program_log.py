"""The log of a program: one line a message, long texts cut, repeats counted."""

from __future__ import annotations

import errno
import io
import logging
import os
import sys
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from cometmq.process import program_log
from cometmq.process.program_log import UNCOUNTED, CountingHandler, OneLineFormatter


class HandClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def written():
    """A handler on a clock of ours, and what it wrote."""
    stream, clock = io.StringIO(), HandClock()
    handler = CountingHandler(stream, clock=clock)
    handler.setFormatter(OneLineFormatter("%(levelname)s %(name)s: %(message)s"))
    yield handler, stream, clock
    handler.close()


def record(message: str, *args: object, level: int = logging.WARNING, error: object = None):
    return logging.LogRecord("one", level, __file__, 1, message, args, error)  # type: ignore[arg-type]


def fail(text: str) -> None:
    raise ValueError(text)


def lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def test_a_line_break_in_an_argument_makes_no_line(written):
    handler, stream, _ = written
    handler.handle(record("closing %s: %s", "a\nERROR forged: x\r\x1b[2J\u2028", {"b": "\n"}))
    assert lines(stream) == [r"WARNING one: closing a\nERROR forged: x\r\x1b[2J\u2028: b: \n"]


def test_text_of_any_script_stays_readable(written):
    handler, stream, _ = written
    handler.handle(record("topic %s", "订单 Größe"))
    assert lines(stream) == ["WARNING one: topic 订单 Größe"]


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
    clock.now += 1.5
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
    clock.now += 1.5
    handler.handle(record("later"))
    [told] = [line for line in lines(stream) if "more like this" in line]
    assert texts[0] in told
    assert "%" not in told


def test_what_goes_on_is_told_less_often(written):
    handler, stream, clock = written
    for number in range(100_000):
        clock.now += 0.001
        handler.handle(record("closing %s", number))
    assert len(lines(stream)) < 20 * (program_log.LINES_MAX + 1)


def test_many_kinds_are_bounded(written):
    handler, stream, clock = written
    for number in range(50_000):
        handler.handle(record(f"closing {number}"))
    assert len(lines(stream)) <= program_log.KINDS_MAX + program_log.LINES_MAX
    clock.now += 2
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
