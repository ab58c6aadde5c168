"""Scenes of the official C++ client, by the Python client of 2019 that is a thin face of it (PyPI's `rocketmq`).

    PYTHONPATH=FOLDER python cpp_scenes.py NAMESERVER SCENE...

FOLDER has the client; CREDENTIALS may have an access key and a secret key. For each scene a line: "ok NAME", or "not ok NAME why".
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rocketmq.client import Message, Producer, PullConsumer, PushConsumer

NAMES = sys.argv[1]
CREDENTIALS = os.environ.get("CREDENTIALS", "").split()
SECONDS_MAX = 60


class Got:
    """What a callback was given."""

    def __init__(self) -> None:
        self._given: list[Any] = []
        self._changed = threading.Condition()

    def add(self, given: Any) -> None:
        with self._changed:
            self._given.append(given)
            self._changed.notify_all()

    def wait(self, count: int) -> list[Any]:
        with self._changed:
            self._changed.wait_for(lambda: len(self._given) >= count, SECONDS_MAX)
            return [*self._given]


@contextmanager
def running(client: Any) -> Iterator[Any]:
    client.set_namesrv_addr(NAMES)
    if CREDENTIALS:
        client.set_session_credentials(*CREDENTIALS, "any channel")
    client.start()
    yield client
    client.shutdown()


def message(topic: str, body: str, tag: str = "") -> Any:
    made = Message(topic)
    made.set_body(body)
    if tag:
        made.set_tags(tag)
    return made


@contextmanager
def consuming(
    topic: str,
    handle: Callable[[Any], object] = lambda _: None,
    *,
    expression: str = "*",
    orderly: bool = False,
) -> Iterator[Got]:
    got = Got()

    def listen(given: Any) -> None:
        got.add(given.body.decode())
        handle(given)

    consumer = PushConsumer(f"G_{topic}", orderly=orderly)
    consumer.subscribe(topic, listen, expression)
    with running(consumer):
        yield got


def push() -> None:
    """A send that waits and one that does not, with keys, tag and property, and a body that is compressed."""
    seen, long = [], "x" * 100_000
    with running(Producer("P_push")) as producer:
        first = message("cpp_push", "first", "paid")
        first.set_keys("k1")
        first.set_property("shop", "5")
        sent = producer.send_sync(first)
        assert (sent.status, len(sent.msg_id)) == (0, 32), sent
        producer.send_oneway(message("cpp_push", "one way"))
        assert producer.send_sync(message("cpp_push", long)).status == 0

    def handle(given: Any) -> None:
        if given.body == b"first":
            seen.append((given.id, given.tags, given.keys, given.get_property("shop")))

    with consuming("cpp_push", handle) as got:
        assert sorted(got.wait(3)) == sorted(["first", "one way", long])
    assert seen == [(sent.msg_id, b"paid", b"k1", b"5")], seen


def send_async() -> None:
    told = Got()
    with running(Producer("P_async")) as producer:
        for number in range(10):
            producer.send_async(message("cpp_async", str(number)), told.add, told.add)
        assert [each.status for each in told.wait(10)] == [0] * 10
    with consuming("cpp_async") as got:
        assert sorted(got.wait(10)) == [*map(str, range(10))]


def send_batch() -> None:
    with running(Producer("P_batch")) as producer:
        producer.send_sync(message("cpp_batch", "first"))
        batch = [message("cpp_batch", str(number)) for number in range(5)]
        assert producer.send_batch(batch).status == 0
    with consuming("cpp_batch") as got:
        assert sorted(got.wait(6)) == [*map(str, range(5)), "first"]


def tag_filter() -> None:
    with running(Producer("P_tags")) as producer:
        for number, tag in enumerate("abcab"):
            producer.send_sync(message("cpp_tags", str(number), tag))
    with consuming("cpp_tags", expression="a||c") as got:
        assert sorted(got.wait(3)) == ["0", "2", "3"]


def retry() -> None:
    """A message that was refused comes again, from the retry topic."""

    def refuse_once(given: Any) -> None:
        if not given.reconsume_times:
            raise ValueError("not yet")

    with running(Producer("P_retry")) as producer:
        producer.send_sync(message("cpp_retry", "again"))
    with consuming("cpp_retry", refuse_once) as got:
        assert got.wait(2) == ["again", "again"]


def order() -> None:
    """Messages of a number are in one queue, and come in order."""
    with running(Producer("P_order")) as producer:
        for number in range(10):
            for key in range(3):
                sent = producer.send_orderly(message("cpp_order", f"{key} {number}"), key)
                assert sent.status == 0
    with consuming("cpp_order", orderly=True) as got:
        came = got.wait(30)
    for key in range(3):
        ours = [each for each in came if each[0] == str(key)]
        assert ours == [f"{key} {n}" for n in range(10)]


def delay() -> None:
    late = message("cpp_delay", "late")
    late.set_delay_time_level(2)
    with running(Producer("P_delay")) as producer:
        producer.send_sync(late)
    with consuming("cpp_delay") as got:
        assert got.wait(1) == ["late"]


def pull() -> None:
    with running(Producer("P_pull")) as producer:
        for body in "abc":
            producer.send_sync(message("cpp_pull", body))
    with running(PullConsumer("G_pull")) as consumer:
        assert sorted(each.body.decode() for each in consumer.pull("cpp_pull")) == [
            "a",
            "b",
            "c",
        ]


def main() -> None:
    for name in sys.argv[2:]:
        try:
            globals()[name]()
        except Exception as error:
            print("not ok", name, repr(error).replace("\n", " "), flush=True)
        else:
            print("ok", name, flush=True)
    os._exit(0)  # Threads of the library may outlive it.


if __name__ == "__main__":
    main()
