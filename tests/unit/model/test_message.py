"""Messages as their users make them."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, fields, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any

import pytest

from cometmq.model import message as module
from cometmq.model.errors import MessageError
from cometmq.model.message import Message, StoredMessage, make_stored_message
from cometmq.model.queue import MessageQueue

# --- as consumers get them


def test_the_short_way_makes_the_same_message_as_the_constructor():
    values: dict[str, Any] = {
        "queue": MessageQueue("T", "b", 1), "queue_offset": 2, "message_id": "a",
        "offset_message_id": "b", "body": b"x", "properties": {"KEYS": "k"}, "born_ms": 3,
        "born_host": "h:1", "stored_ms": 4, "store_host": "s:2", "flag": 5, "sys_flag": 6,
        "reconsume_times": 7, "commitlog_offset": 8, "store_size": 9, "body_crc": 10,
        "prepared_offset": 11,
    }  # fmt: skip
    assert [field.name for field in fields(StoredMessage)] == list(values)
    made = make_stored_message(*values.values())
    assert type(made) is StoredMessage
    assert made == StoredMessage(**values)
    assert replace(made, flag=0) == StoredMessage(**{**values, "flag": 0})
    assert pickle.loads(pickle.dumps(made)) == made
    anyone: Any = made  # Who does not ask a type checker is stopped, too.
    with pytest.raises(FrozenInstanceError):
        anyone.flag = 1


# --- delivery at a time


@pytest.mark.parametrize(
    ("deliver", "name", "value"),
    [
        (timedelta(hours=2), "TIMER_DELAY_MS", "7200000"),
        (timedelta(microseconds=1500), "TIMER_DELAY_MS", "1"),
        (datetime(2030, 1, 1, tzinfo=UTC), "TIMER_DELIVER_MS", "1893456000000"),
    ],
)
def test_a_delivery_time_becomes_the_property_that_brokers_know(deliver, name, value):
    assert Message("T", b"x", deliver=deliver).stored_properties()[name] == value


def test_a_naive_time_is_local_time():
    naive = datetime(2030, 1, 1)  # noqa: DTZ001  That is what is asked.
    stored = Message("T", b"x", deliver=naive).stored_properties()
    assert int(stored["TIMER_DELIVER_MS"]) == int(naive.astimezone().timestamp() * 1000)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tag": "a||b"}, r"'a\|\|b' contains \|\|"),
        ({"tag": 5}, "tag must be text, not int"),
        ({"tag": b"a"}, "tag must be text, not bytes"),
        ({"tag": 0}, "tag must be text, not int"),
        ({"keys": 0}, "keys must be text or several texts, not int"),
        ({"properties": ()}, "properties must be a mapping of text to text, not tuple"),
        ({"keys": 5}, "keys must be text or several texts, not int"),
        ({"keys": [7]}, "key 7 must be text, not int"),
        ({"keys": (b"k",)}, "key b'k' must be text, not bytes"),
        ({"keys": b"k"}, "key 107 must be text, not int"),
        ({"keys": "a b"}, r"'a b' contains a space.*keys=\('a', 'b'\)"),
        ({"keys": " a  b "}, r"' a  b ' contains a space.*keys=\('a', 'b'\)"),
        ({"keys": ("a b",)}, r"'a b' contains a space.*keys=\('a', 'b'\)"),
        ({"keys": ("k", " ")}, "' ' contains a space"),
        ({"delay_level": 19}, "delay_level=19: .*from 0 to 18.*deliver"),
        ({"delay_level": 99}, "delay_level=99: .*from 0 to 18.*deliver"),
        ({"delay_level": -1}, "delay_level=-1: .*from 0 to 18"),
        ({"delay_level": "3"}, "delay_level must be a whole number, not str"),
        ({"delay_level": 3.0}, "delay_level must be a whole number, not float"),
        ({"delay_level": True}, "delay_level must be a whole number, not bool"),
        ({"delay_level": None}, "delay_level must be a whole number, not NoneType"),
        ({"flag": "x"}, "flag must be a whole number, not str"),
        ({"flag": 0.0}, "flag must be a whole number, not float"),
        ({"flag": False}, "flag must be a whole number, not bool"),
        ({"flag": 1 << 31}, "flag=2147483648: .*from -2147483648 to 2147483647"),
        ({"wait_store_ok": "false"}, "wait_store_ok must be True or False, not str"),
        ({"wait_store_ok": 1}, "wait_store_ok must be True or False, not int"),
        ({"deliver": timedelta(seconds=-1)}, "negative"),
        ({"deliver": 5}, "timedelta or a datetime"),
        ({"deliver": datetime(1, 1, 1)}, "deliver=0001-01-01 .* is not a time of this system"),  # noqa: DTZ001  That is what is asked.
        ({"deliver": timedelta(1), "delay_level": 3}, "not both"),
    ],
)
def test_what_no_broker_could_take_as_it_is_meant_is_refused_in_words(given, words):
    with pytest.raises(MessageError, match=words):
        Message("T", b"x", **given)


class Level(IntEnum):
    """Delay levels as a program of a user may name them."""

    TEN_SECONDS = 3


def test_the_ends_of_the_numbers_are_taken():
    for level in (0, 1, 18, Level.TEN_SECONDS):
        assert Message("T", b"x", delay_level=level).delay_level == level
    for flag in (-(1 << 31), (1 << 31) - 1):
        assert Message("T", b"x", flag=flag).flag == flag


# --- keys: U+0020 alone separates them


# Ideographic space, no-break space, tab, line separator, unit separator, next line.
NO_SEPARATORS = ("\u3000", "\u00a0", "\t", "\u2028", "\x1f", "\x85")


@pytest.mark.parametrize("sign", NO_SEPARATORS)
def test_a_key_is_not_cut_at_what_python_calls_white_space(sign):
    key = f"订单{sign}号"
    message = Message("T", b"", keys=key)
    assert message.key_words == (key,)
    assert message.stored_properties()["KEYS"] == key
    assert stored_with(f"{key} other").keys == (key, "other")


def test_several_keys_are_stored_with_one_space_between_and_read_with_any_number():
    """Java's `setKeys(String)` takes what it is given."""
    assert Message("T", b"", keys=("a", "b")).stored_properties()["KEYS"] == "a b"
    assert stored_with(" a  b ").keys == ("a", "b")


def stored_with(keys: str) -> StoredMessage:
    return make_stored_message(
        MessageQueue("T", "b", 1), 2, "a", "b", b"x", {"KEYS": keys}, 3, "h:1", 4, "s:2", 5, 6, 7,
        8, 9, 10, 11,
    )  # fmt: skip


def test_every_topic_is_checked_however_many_there_were_and_few_are_kept():
    for number in range(3000):
        assert Message(f"Topic{number}", b"").topic == f"Topic{number}"
        with pytest.raises(MessageError):
            Message(f"Topic/{number}", b"")
    assert len(module._legal) <= 1024
