"""Our client's delays and dead letters, on a Java broker and on ours."""

import json
import time
from datetime import datetime, timedelta

import pytest

from cometmq import Admin, Message, StoredMessage
from tests.interop.ours import SECONDS, Box, dead_letters, pushed
from tests.support import topics
from tests.support.command_line import run
from tests.support.processes import wait_until

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]

LATE_MS_MAX = 5_000  # A busy test machine; Java delivers up to a second late.


def test_a_message_comes_when_it_was_asked_for(names, producer, topic, group):
    at = datetime.now().astimezone() + timedelta(milliseconds=3_300)
    wishes = {
        b"level": (Message(topic, b"level", delay_level=1), 1_000),
        b"delay": (Message(topic, b"delay", deliver=timedelta(milliseconds=2_200)), 2_200),
        b"time": (Message(topic, b"time", deliver=at), None),
        b"now": (Message(topic, b"now"), 0),
    }
    box = Box()
    for message, _ in wishes.values():
        producer.send(message)
    with pushed(names, group, box, topic):
        box.wait(len(wishes))
    for given in box.messages:
        _, delay_ms = wishes[given.body]
        due_ms = at.timestamp() * 1000 if delay_ms is None else given.born_ms + delay_ms
        assert 0 <= given.stored_ms - int(due_ms) <= LATE_MS_MAX, given.body


def test_a_message_can_be_taken_back(names, producer, topic):
    kept = producer.send(Message(topic, b"kept", deliver=timedelta(seconds=4)))
    lost = producer.send(Message(topic, b"lost", deliver=timedelta(seconds=4)))
    with Admin(names) as admin:
        assert lost.recall_handle is not None
        assert admin.messages.recall(lost.recall_handle) == lost.message_id
    (found,) = wait_until(lambda: topics.read(names, topic), seconds=SECONDS, what="the other")
    assert found.message_id == kept.message_id
    time.sleep(1)
    assert len(topics.read(names, topic)) == 1


def test_what_waits_is_listed(names, producer, topic):
    producer.send(Message(topic, b"level", delay_level=18))
    producer.send(Message(topic, b"time", deliver=timedelta(minutes=30)))
    producer.send(Message(topic, b"taken back", deliver=timedelta(minutes=20)))

    def listed() -> dict[str, str | None]:
        done = run("message", "delayed", "--topic", topic, "--json", nameserver=names)
        lines = map(json.loads, done.stdout.splitlines())
        return {line["body"]: line["recall_handle"] for line in lines}

    wait_until(lambda: len(listed()) == 3, seconds=SECONDS, what="three that wait")
    handles = listed()
    assert list(handles) == ["taken back", "time", "level"]
    run("message", "recall", handles["taken back"] or "", nameserver=names)
    wait_until(
        lambda: list(listed()) == ["time", "level"], seconds=SECONDS, what="two that wait"
    )


def test_a_message_without_further_tries_lies_in_the_dead_letters(
    names, producer, topic, group
):
    tries: list[StoredMessage] = []

    def refuse(message: StoredMessage) -> None:
        tries.append(message)
        raise ValueError("not today")

    sent = producer.send(Message(topic, b"dead", tag="t", keys="k"))
    with pushed(names, group, refuse, topic, retries_max=0):
        (letter,) = dead_letters(names, group)
    assert [message.body for message in tries] == [b"dead"]
    assert (letter.body, letter.tag, letter.message_id) == (b"dead", "t", sent.message_id)
    assert letter.properties["RETRY_TOPIC"] == topic
    assert letter.properties["ORIGIN_MESSAGE_ID"] == sent.offset_message_id
