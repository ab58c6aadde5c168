"""Messages as their users make them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cometmq.model.errors import MessageError
from cometmq.model.message import Message

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
        ({"deliver": timedelta(seconds=-1)}, "negative"),
        ({"deliver": 5}, "timedelta or a datetime"),
        ({"deliver": timedelta(1), "delay_level": 3}, "not both"),
    ],
)
def test_a_delivery_that_cannot_be_is_refused(given, words):
    with pytest.raises(MessageError, match=words):
        Message("T", b"x", **given)
