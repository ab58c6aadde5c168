"""Texts for people: numbers with their words, and names and values as their users wrote them."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from enum import Enum

import pytest

from cometmq.model.durations import duration_ms
from cometmq.model.numbers import whole_number
from cometmq.model.text import as_given, as_utf8, decode_reason, in_quotes, plural


class Colour(Enum):
    """An enumeration of a user."""

    RED = 1


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 changes"), (1, "1 change"), (2, "2 changes"), (1_000, "1000 changes")],
)
def test_one_thing_is_singular(count: int, text: str):
    assert f"{count} {plural(count, 'change')}" == text


def test_other_forms_are_named():
    assert [plural(n, "body", "bodies") for n in (0, 1, 2)] == ["bodies", "body", "bodies"]
    assert [plural(n, "is", "are") for n in (0, 1, 2)] == ["are", "is", "are"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders", "'orders'"),
        ("it's", "'it's'"),
        ("a\nb\x1b", r"'a\nb\x1b'"),
        ("订单", "'订单'"),
        ("\ud800", r"'\ud800'"),
        ("x" * 100, "'xxxxxxxxxxxxxxx ... (100 characters) ... xxxxx'"),
    ],
)
def test_a_name_is_shown_in_quotes_on_one_short_line(text: str, shown: str):
    assert in_quotes(text, 20) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("orders", "'orders'"),
        (5, "5"),
        (None, "None"),
        (("a", "b"), "('a', 'b')"),
        (timedelta(seconds=-1), "datetime.timedelta(days=-1, seconds=86399)"),
        (Colour.RED, "Colour.RED"),
        (Colour, "the class Colour"),
        (json.dumps, "the function dumps"),
        (b"\x00", r"b'\x00'"),
    ],
)
def test_an_argument_is_shown_as_its_caller_wrote_it(value: object, shown: str):
    assert as_given(value) == shown


def test_an_object_is_shown_by_its_class_and_not_by_its_address():
    assert as_given(asyncio.Lock()) == "an object of the class Lock"
    assert as_given(list(range(10_000)), 40).startswith("[0, 1, 2")
    assert len(as_given(list(range(10_000)), 40)) < 80


def test_why_a_document_is_not_as_expected_has_no_names_of_pythons_types():
    assert decode_reason(KeyError("version")) == "the field version is missing"
    assert decode_reason(TypeError("'int' object is not subscriptable")) == (
        "a value has the wrong type"
    )
    assert (
        decode_reason(ValueError("version 9 is not supported")) == "version 9 is not supported"
    )


@pytest.mark.parametrize(
    "text", ["broker-a", "请填写本机地址", "Käufer 1", "naïve ÷ 2", "a\x9f\x80"]
)
def test_utf8_that_was_read_as_latin_1_is_readable_again(text: str):
    assert as_utf8(text.encode().decode("latin-1")) == text
    assert as_utf8(text) == text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), ("007", 7), ("9" * 18, 10**18 - 1), ("9" * 19, None), ("9" * 5000, None), ("", None),
        ("-1", None), ("+1", None), (" 1", None), ("1_0", None), ("1.0", None), ("²", None), ("٣", None),
    ],
)  # fmt: skip
def test_a_whole_number_has_at_most_18_digits(text, number):
    assert whole_number(text) == number


def test_a_duration_of_too_many_digits_is_none():
    with pytest.raises(ValueError, match="is not a duration like"):
        duration_ms("9" * 5000 + "s")
