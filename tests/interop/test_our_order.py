"""Our consumers in order, on Java's servers and ours."""

import itertools
import threading
from collections import defaultdict

import pytest

from cometmq import Message, StoredMessage, by_hash
from tests.interop.ours import FAST, SECONDS, dead_letters, pushed
from tests.support.processes import wait_until

pytestmark = [pytest.mark.java, pytest.mark.timeout(120)]

KEYS, PER_KEY = 8, 25
ORDERLY = {"orderly": True, "suspend_queue_ms": 100, **FAST}


class Watch:
    """Sees the calls of several consumers."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.seen: dict[str, list[int]] = defaultdict(list)
        self.running: dict[int, int] = defaultdict(int)
        self.overlaps = 0

    def __call__(self, message: StoredMessage) -> None:
        queue_id = message.queue.queue_id
        key, number = message.body.decode().split(":")
        with self.lock:
            self.running[queue_id] += 1
            self.overlaps += self.running[queue_id] > 1
            self.seen[key].append(int(number))
        threading.Event().wait(0.002)
        with self.lock:
            self.running[queue_id] -= 1

    @property
    def count(self) -> int:
        return sum(len(set(numbers)) for numbers in self.seen.values())


def test_two_consumers_keep_the_order_of_keys_while_queues_go_from_one_to_the_other(
    names, producer, topic, group
):
    watch = Watch()
    with pushed(names, group, watch, topic, **ORDERLY):
        for number in range(PER_KEY):
            for key in range(KEYS):
                message = Message(topic, f"{key}:{number}".encode())
                producer.send(message, selector=by_hash(str(key)))
        with pushed(names, group, watch, topic, **ORDERLY):
            wait_until(
                lambda: watch.count == KEYS * PER_KEY, seconds=SECONDS, what="all messages"
            )
    assert watch.overlaps == 0
    for name, numbers in watch.seen.items():
        steps = itertools.pairwise(numbers)
        assert all(after <= before + 1 for before, after in steps), (name, numbers)


def test_a_refused_message_is_given_again_before_the_next_and_then_buried(
    names, producer, topic, group
):
    (queue, *_) = producer.queues(topic)
    for body in (b"before", b"bad", b"after"):
        producer.send(Message(topic, body), queue=queue)
    seen: list[tuple[bytes, int]] = []

    def listen(message: StoredMessage) -> bool:
        seen.append((message.body, message.reconsume_times))
        return message.body != b"bad"

    with pushed(names, group, listen, topic, retries_max=1, **ORDERLY):
        wait_until(lambda: (b"after", 0) in seen, seconds=SECONDS, what="the one behind it")
    assert seen == [(b"before", 0), (b"bad", 0), (b"bad", 1), (b"after", 0)]
    assert [each.body for each in dead_letters(names, group)] == [b"bad"]
