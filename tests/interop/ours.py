"""What the tests of our own client share: topics of their own, consumers with a box, everything of a topic."""

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from cometmq import (
    ALL,
    Admin,
    ConsumeFrom,
    Message,
    PullConsumer,
    PushConsumer,
    PushConsumerSettings,
    SimpleConsumer,
    StoredMessage,
)
from cometmq.model.errors import ClientError
from tests.support import topics
from tests.support.processes import wait_until

# Times of a test, not of the defaults: a group is shared out again each second.
FAST: dict[str, Any] = {
    "rebalance_interval_ms": 1000,
    "persist_interval_ms": 500,
    "suspend_ms": 5000,
}
SECONDS = 30
_numbers = itertools.count(1)


def new_topic(names: str, queues: int = 4) -> str:
    """A topic of its own, known to the nameserver."""
    name = f"Ours_{time.time_ns()}_{next(_numbers)}"
    with Admin(names) as admin:
        admin.topics.create(name, queues=queues)

        def is_known() -> bool:
            try:
                return bool(admin.topics.route(name).queues)
            except ClientError:
                return False

        wait_until(is_known, seconds=SECONDS, what=f"the route of {name}")
    return name


class Box:
    """What a push consumer was given."""

    def __init__(self) -> None:
        self.messages: list[StoredMessage] = []
        self.lock = threading.Lock()

    def __call__(self, message: StoredMessage) -> None:
        with self.lock:
            self.messages.append(message)

    @property
    def bodies(self) -> list[bytes]:
        return sorted(message.body for message in self.messages)

    def wait(self, count: int) -> None:
        wait_until(
            lambda: len(self.messages) >= count, seconds=SECONDS, what=f"{count} messages"
        )


def pushed(
    names: str,
    group: str,
    box: Callable[[StoredMessage], bool | None],
    *topics: str,
    **settings: Any,
) -> PushConsumer:
    """A push consumer that begins at the first message, unless settings say otherwise."""
    settings = {**FAST, "consume_from": ConsumeFrom.FIRST, **settings}
    expression = settings.pop("expression", ALL)
    return PushConsumer(
        names,
        group=group,
        listener=box,
        subscriptions=dict.fromkeys(topics, expression),
        settings=PushConsumerSettings(**settings),
    )


def received(
    consumer: PullConsumer | SimpleConsumer, count: int, **how: Any
) -> list[StoredMessage]:
    """What a consumer receives until there are so many, or time is over."""
    found: list[StoredMessage] = []
    end = time.monotonic() + SECONDS
    while len(found) < count and time.monotonic() < end:
        found += consumer.receive(32, wait_ms=1_000, **how)
    return found


def dead_letters(names: str, group: str) -> list[StoredMessage]:
    """The dead letters of a group, as soon as there are some."""
    dead = f"%DLQ%{group}"

    def found() -> list[StoredMessage]:
        with Admin(names) as admin:
            return topics.read(names, dead) if dead in admin.topics.list() else []

    return wait_until(found, seconds=SECONDS, what=dead)


def bodies(prefix: str, count: int) -> list[bytes]:
    return [f"{prefix}-{number:04}".encode() for number in range(count)]


def messages(topic: str, texts: Sequence[bytes], **rest) -> list[Message]:
    return [Message(topic, text, **rest) for text in texts]
