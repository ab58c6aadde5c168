"""Listeners that refuse a message for good, ask for it later, or break their contract, for every kind of consumer."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from cometmq import (
    Admin,
    ConsumeFrom,
    DeadLetter,
    JsonCodec,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    PushConsumerSettings,
    RetryLater,
    StoredMessage,
    Topic,
)
from cometmq.errors import ListenerError
from tests.support import topics

KINDS: dict[str, dict[str, Any]] = {
    "concurrent": {},
    "ordered": {"orderly": True, "suspend_queue_ms": 50},
    "popped": {"client_rebalance": False, "pop_delays_ms": (200,)},
}


class Case:
    """A topic of one queue with four messages, and a group of one kind."""

    def __init__(self, names: str, kind: str, name: str) -> None:
        self.names, self.topic, self.group = names, f"T_{name}_{kind}", f"G_{name}_{kind}"
        self.settings = PushConsumerSettings(
            consume_from=ConsumeFrom.FIRST,
            suspend_ms=1_000,
            rebalance_interval_ms=500,
            **KINDS[kind],
        )
        topics.make(names, self.topic, groups=(self.group,))
        if kind == "popped":
            with Admin(names) as admin:
                admin.topics.set_request_mode(self.topic, self.group, "POP")
        topics.send(names, self.topic, *(b"%d" % number for number in range(4)))

    def consumer(self, listener: Callable[[StoredMessage], Any]) -> PushConsumer:
        return PushConsumer(
            self.names,
            group=self.group,
            listener=listener,
            subscriptions=[self.topic],
            settings=self.settings,
        )

    def dead_letters(self, count: int) -> list[bytes]:
        """The bodies of the group's dead letters, once there are so many."""
        found: list[bytes] = []
        deadline = time.monotonic() + 30
        with PullConsumer(self.names, group="looks") as reader:
            while len(found) < count and time.monotonic() < deadline:
                try:
                    queues = reader.queues(f"%DLQ%{self.group}")
                except Exception:
                    time.sleep(0.1)
                    continue
                found = [m.body for q in queues for m in reader.fetch(q, 0).messages]
        return found


@pytest.fixture(params=KINDS)
def case(names: str, request: pytest.FixtureRequest) -> Case:
    return Case(names, request.param, request.function.__name__[:40])


class Calls:
    """The calls of a listener: bodies with their times."""

    def __init__(self) -> None:
        self.made: list[tuple[bytes, float]] = []
        self.changed = threading.Condition()

    def note(self, message: StoredMessage) -> None:
        with self.changed:
            self.made.append((message.body, time.monotonic()))
            self.changed.notify_all()

    def wait(self, *bodies: bytes) -> None:
        def has_all() -> bool:
            return {*bodies} <= {body for body, _ in self.made}

        with self.changed:
            assert self.changed.wait_for(has_all, 30), self.made

    def times(self, body: bytes) -> list[float]:
        return [at for each, at in self.made if each == body]


@pytest.mark.parametrize("is_async", [False, True], ids=["def", "async def"])
def test_a_poison_message_is_a_dead_letter_after_one_call(names, request, is_async):
    for kind in KINDS:
        case = Case(names, kind, f"poison_{is_async}")
        calls = Calls()

        def handle(message: StoredMessage, calls: Calls = calls) -> None:
            calls.note(message)
            if message.body == b"1":
                raise DeadLetter("no such customer")

        async def handle_later(message: StoredMessage, handle: Any = handle) -> None:
            await asyncio.sleep(0)
            handle(message)

        with case.consumer(handle_later if is_async else handle):
            calls.wait(b"0", b"1", b"2", b"3")
            assert case.dead_letters(1) == [b"1"], kind
        assert len(calls.times(b"1")) == 1, kind


def test_the_dead_letter_may_be_named_as_one_message_and_the_next_ones_come(case):
    calls = Calls()

    def handle(message: StoredMessage) -> None:
        calls.note(message)
        if message.body == b"1":
            raise DeadLetter("no such customer", message)

    with case.consumer(handle):
        calls.wait(b"0", b"1", b"2", b"3")
        assert case.dead_letters(1) == [b"1"]


def test_a_body_that_cannot_be_decoded_is_a_dead_letter_after_one_call(case, caplog):
    """With one line in the log, and no traceback."""
    calls = Calls()
    topic: Topic[Any] = Topic(case.topic, JsonCodec())
    with Producer(case.names) as producer:
        producer.send(Message(case.topic, b"{"))
    with case.consumer(topic.listener(lambda given: calls.note(given.message))):
        calls.wait(b"0", b"1", b"2", b"3")
        assert case.dead_letters(1) == [b"{"]
    ours = [each for each in caplog.records if each.name.startswith("cometmq.client")]
    assert [each.levelname for each in ours if "rejected 1 message" in each.message] == [
        "WARNING"
    ]
    assert not [each for each in ours if each.exc_info]


def test_a_listener_chooses_when_its_message_comes_again(case):
    """1 s is a delay level; the first retry would wait 10 s, the pause of an ordered queue 50 ms."""
    calls = Calls()

    def handle(message: StoredMessage) -> None:
        calls.note(message)
        if message.body == b"1" and len(calls.times(b"1")) == 1:
            raise RetryLater(timedelta(seconds=1))

    with case.consumer(handle):
        calls.wait(b"0", b"1", b"2", b"3")
        with calls.changed:
            assert calls.changed.wait_for(lambda: len(calls.times(b"1")) == 2, 30)
    first, second = calls.times(b"1")
    assert 0.9 < second - first < 9.5


def test_an_answer_that_means_nothing_stops_the_consumer_at_its_first_call(case):
    calls = Calls()

    def handle(message: StoredMessage) -> Any:
        calls.note(message)
        return {"ok": 1}

    with case.consumer(handle) as consumer, Producer(case.names) as producer:
        with calls.changed:
            assert calls.changed.wait_for(lambda: calls.made, 30)
        time.sleep(0.2)
        producer.send(Message(case.topic, b"later"))  # A broker still holds a request for more.
        time.sleep(0.5)
        assert not calls.times(b"later")
        with pytest.raises(ListenerError, match=r"returned {'ok': 1}.*None or True"):
            consumer.wait()
    assert len(calls.made) <= 4, "each message once at most"
    again = Calls()
    with case.consumer(again.note):
        again.wait(b"0", b"1", b"2", b"3", b"later")


def skip() -> None:
    pytest.skip("of another test")


RAISED = {
    "sys.exit": lambda: sys.exit(3),
    "a cancellation": lambda: (_ for _ in ()).throw(asyncio.CancelledError()),
    "an outcome of pytest": skip,
    "StopIteration": lambda: next(iter(())),
    "an exception": lambda: int("missing"),
}


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("kind", ["ordered", "popped"])
@pytest.mark.parametrize("is_async", [False, True], ids=["def", "async def"])
def test_whatever_a_listener_raises_its_message_comes_again_and_the_others_come(
    names, kind, raised, is_async, caplog
):
    case = Case(names, kind, f"{abs(hash(raised))}_{is_async}")
    calls = Calls()

    def handle(message: StoredMessage) -> None:
        calls.note(message)
        if message.body == b"1" and len(calls.times(b"1")) == 1:
            RAISED[raised]()

    async def handle_later(message: StoredMessage) -> None:
        await asyncio.sleep(0)
        handle(message)

    with case.consumer(handle_later if is_async else handle):
        with calls.changed:
            assert calls.changed.wait_for(lambda: len(calls.times(b"1")) == 2, 30), calls.made
        calls.wait(b"0", b"2", b"3")
        with Producer(names) as producer:  # The thread of all blocking clients is alive.
            producer.send(Message(case.topic, b"4"))
        calls.wait(b"4")
    assert caplog.text.count("The listener failed on ") == 1
