"""Text and bodies of peers: nothing is hidden, nothing steers, everything has a bound."""

from __future__ import annotations

import json
import unicodedata
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.dashboard import escaping
from cometmq.dashboard.bodies import BODY_SHOWN_MAX, body_line, body_view
from cometmq.dashboard.inputs import WrongInput, hex_of, number_of, page_of, time_of


class Elements(HTMLParser):
    """What elements some HTML has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.add(tag)


@given(st.text())
def test_no_text_makes_an_element_or_steers(text):
    made = escaping.escaped(text)
    assert Elements(made).found <= {"bdi", "span"}
    assert not [
        sign for sign in made if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    ]


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00")))
def test_a_value_is_what_it_was_and_steers_nothing(text):
    made = escaping.as_value(text)
    assert unescape(made) == text or any(
        ord(sign) < 32 or 127 <= ord(sign) < 160 for sign in text
    )
    for flat in (made, escaping.plainly(text)):
        assert not [
            sign for sign in flat if unicodedata.category(sign) in ("Cc", "Cf", "Zl", "Zp")
        ]
    assert escaping.hides(text) == ("&#" in made.replace("&#34;", "").replace("&#39;", ""))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a\u202eb", 'title="right-to-left override">U+202E<'),
        ("a\x00b", ">U+0000<"),
        ("a\u200bb", ">U+200B<"),
        ("<b>", "&lt;b&gt;"),
        ("plain \u00e4\u4e2d\U0001f600", "plain \u00e4\u4e2d\U0001f600"),
        ("x" * 301, "301 characters in all"),
    ],
)
def test_what_cannot_be_seen_stands_as_its_number(text, says):
    assert says in escaping.escaped(text)


@pytest.mark.parametrize(
    ("body", "kind", "as_kind", "text", "is_whole", "fault"),
    [
        (b"hello", None, "text", "hello", True, None),
        (b'{"a": 1}', None, "json", '{\n  "a": 1\n}', True, None),
        (b'{"a": 1}', "text", "text", '{"a": 1}', True, None),
        (b"{no", None, "text", "{no", True, None),
        (b"{no", "json", "text", "{no", True, "The body is not JSON"),
        (b"\xff\x00A", None, "hex", "00000000  ff 00 41", True, "not UTF-8 (byte 0)"),
        (b"\xff", "text", "text", "\ufffd", True, "not UTF-8 (byte 0)"),
        (b"AB", "hex", "hex", "00000000  41 42", True, None),
        (b"", None, "text", "", True, None),
        (b"x" * (BODY_SHOWN_MAX + 1), None, "text", "xxx", False, None),
        (b"[" * 50_000, "json", "text", "[[[", True, "The body is not JSON"),
        (b"[" + b"1," * BODY_SHOWN_MAX, "json", "text", "[1,", False, "JSON is only formatted up to 64 KiB"),
        ("\u00e4".encode() * BODY_SHOWN_MAX, None, "text", "\u00e4", False, None),
    ],
)  # fmt: skip
def test_a_body_is_shown_as_what_it_is_or_as_is_asked(
    body, kind, as_kind, text, is_whole, fault
):
    view = body_view(body, kind)
    assert (view.kind, view.is_whole, view.size) == (as_kind, is_whole, len(body))
    assert view.text.startswith(text)
    assert view.fault is None if fault is None else fault in (view.fault or "")


@given(st.binary(max_size=300), st.sampled_from([None, "text", "json", "hex"]))
def test_every_body_is_shown(body, kind):
    view = body_view(body, kind)
    assert view.size == len(body)
    assert len(body_line(body)) <= 300


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=20))
def test_json_that_is_laid_out_says_the_same(value):
    view = body_view(json.dumps([value]).encode())
    assert json.loads(view.text) == [value]


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("", None),
        ("0", 0),
        ("1795520000000", 1795520000000),
        ("1970-01-01T00:00:00+00:00", 0),
        ("1970-01-01T02:00:00+05:00", 0),
        ("9999-12-31T23:59:59+00:00", 253402300799000),
        ("2026-05-01T12:00:00+00:00", 1777636800000),
    ],
)
def test_a_time_is_read(text, ms):
    assert time_of({"at": text}, "at", "At") == ms


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "-1",
        "1969-01-01",
        "10000-01-01",
        "0001-01-01",
        "9" * 16,
        "2026-13-01",
        "\u0663",
        "1e9",
        "nan",
    ],
)
def test_what_is_no_time_is_refused(text):
    with pytest.raises(WrongInput, match="write one like 2026-05-01"):
        time_of({"at": text}, "at", "At")


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.0", "\u0663", "9" * 30, "1_0", " 1 2"])
def test_what_is_no_page_is_refused(text):
    with pytest.raises(WrongInput):
        page_of({"page": text})


def test_numbers_and_hexadecimal_are_read():
    assert page_of({}) == 1
    assert number_of({"n": " 7 "}, "n", "N", least=0, most=9, default=1) == 7
    assert hex_of("00 fF\n10", "It") == b"\x00\xff\x10"
    with pytest.raises(WrongInput, match="is not hexadecimal"):
        hex_of("0", "It")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (90_061, "1 d 1 h"),
        (-5, "0 s"),
    ],
)
def test_a_length_of_time_is_told_in_two_units(seconds, text):
    assert escaping.span(seconds) == text


def test_numbers_sizes_and_times_are_told():
    assert escaping.number(1234567) == "1,234,567"
    assert escaping.size(1536) == "1.5 KiB"
    assert escaping.size(7) == "7 B"
    assert escaping.moment(0) == escaping.moment(None)
    assert escaping.moment(10**17).endswith("ms since 1970")
