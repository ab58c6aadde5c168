"""Slots, units, check and recall handle are what docs/format/timer.md says."""

from __future__ import annotations

import re

import pytest

from cometmq.codec.recall_handle import decode_recall_handle, encode_recall_handle
from cometmq.codec.timer_files import (
    TIMER_CHECK,
    TIMER_SLOT,
    TIMER_UNIT,
    TimerCheck,
    TimerSlot,
    TimerUnit,
    decode_check,
    decode_unit,
    encode_blank,
    encode_check,
    encode_unit,
    is_blank,
)
from cometmq.model.errors import CodecError
from cometmq.store.timer.wheel import WHEEL_SLOTS
from tests.unit.codec.test_format_pages import examples, field_sizes, page_text, table_rows


@pytest.mark.parametrize(
    ("heading", "layout", "names"),
    [
        ("Slot", TIMER_SLOT, TimerSlot._fields),
        ("Unit", TIMER_UNIT, TimerUnit._fields),
        ("timercheck", TIMER_CHECK, TimerCheck._fields),
    ],
)
def test_the_pages_tables_are_the_codes_structs(heading, layout, names):
    told = [(row[0], int(row[1])) for row in table_rows("timer", heading)[2:]]
    assert told == list(zip(names, field_sizes(layout), strict=True))


def test_the_examples_are_some():
    slot, unit, check = examples("timer")
    found = TimerSlot._make(TIMER_SLOT.unpack(slot))
    assert found == (1795253713, 0, 104, 3, 0)
    assert found.time % WHEEL_SLOTS == 207_313
    assert decode_unit(unit) == (52, -1, 1, 1795253708000, 5499, 3000, 309, 84842, 0)
    assert decode_unit(unit).time_ms == 1795253713499
    assert encode_unit(decode_unit(unit)) == unit
    assert decode_check(check) == (1795253708000, 52, 1, 1, 0, 1795253708432, 157)
    assert encode_check(decode_check(check)) == check


def test_the_example_handle_is_one():
    match = re.search(r"```text\n(.*)\n```", page_text("timer"))
    assert match is not None
    handle = decode_recall_handle(match[1])
    assert handle == (
        "TopicTest", "broker-a", "1795253713001", "7F0000010000000118B4AAC200000001",
    )  # fmt: skip
    assert encode_recall_handle(handle) == match[1]


@pytest.mark.parametrize("text", ["", "é", "djI", "djEgYSBi", "=", "djEgVG9waWNUZXN0IGJy%"])
def test_what_is_no_handle_is_refused(text):
    with pytest.raises(CodecError, match="recall handle is invalid"):
        decode_recall_handle(text)


def test_what_is_no_unit_is_refused():
    for content in (b"", bytes(51), bytes(52), encode_unit(TimerUnit(51, *[0] * 8))):
        with pytest.raises(CodecError, match="timer unit"):
            decode_unit(content)
    with pytest.raises(CodecError, match="timer unit"):
        decode_unit(encode_unit(TimerUnit(52, -1, 16, 0, 0, 0, 0, 0)))


def test_the_end_of_a_file_is_seen():
    assert is_blank(encode_blank(40) + bytes(24), 0)
    assert is_blank(bytes(15), 0)  # No unit fits there.
    assert not is_blank(bytes(52), 0)


def test_a_short_check_is_refused():
    with pytest.raises(CodecError, match="timercheck"):
        decode_check(bytes(55))
