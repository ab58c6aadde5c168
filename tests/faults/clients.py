"""Producers and consumers at work until SIGTERM, which keep books of what they saw.

    python -m tests.faults.clients produce NAMESERVERS BOOKS NUMBER...
    python -m tests.faults.clients consume NAMESERVERS BOOKS GROUP...

BOOKS is a file with a JSON array a line. Producers note [seconds, producer, number, queue id, queue offset] of each acknowledgement and
[seconds, producer, number, error] otherwise, consumers [seconds, group, queue id, queue offset, body]. Seconds are those of
the monotonic clock, which all programs of a machine share.
"""

import json
import signal
import sys
import threading
import time
from contextlib import ExitStack
from typing import TextIO

from cometmq import (
    ConsumeFrom,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    PushConsumerSettings,
    StoredMessage,
)
from cometmq.model.errors import CometError

TOPIC, BROKER_NAME, QUEUES = "orders", "broker-a", 4
# Producers with these numbers send everything to the queue of their number, in one attempt: its order is theirs.
TO_ONE_QUEUE = (0, 1)
ORDERED, SHARED = "ordered", "shared"  # Consumer groups.
PACE_SECONDS = 0.005
FILL = "x" * 100


class Books:
    """A file to which several threads append."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._lock = threading.Lock()

    def note(self, *values: object) -> None:
        line = json.dumps([time.monotonic(), *values]) + "\n"
        with self._lock:
            self._file.write(line)
            self._file.flush()


def produce(names: str, books: Books, number: int, is_over: threading.Event) -> None:
    """Send numbered messages one after the other; the next one also after an error."""
    queue = MessageQueue(TOPIC, BROKER_NAME, number) if number in TO_ONE_QUEUE else None
    count = 0
    with Producer(names, group=f"writers{number}") as producer:
        while not is_over.wait(PACE_SECONDS):
            message = Message(TOPIC, f"{number}-{count}-{FILL}".encode())
            try:
                done = producer.send(message, queue=queue)
            except CometError as error:
                books.note(number, count, f"{type(error).__name__}: {error}")
                is_over.wait(PACE_SECONDS * 10)
            else:
                books.note(number, count, done.queue.queue_id, done.queue_offset)
            count += 1


def consumer(names: str, books: Books, group: str) -> PushConsumer:
    """Return a push consumer from the first message on, not yet started."""

    def listen(message: StoredMessage) -> None:
        books.note(group, message.queue.queue_id, message.queue_offset, message.body.decode())

    settings = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, orderly=group == ORDERED)
    return PushConsumer(
        names, group=group, listener=listen, subscriptions=[TOPIC], settings=settings
    )


def main() -> None:
    """Work until SIGTERM."""
    what, names, path, *those = sys.argv[1:]
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    with open(path, "a") as file, ExitStack() as running:  # noqa: PTH123
        books = Books(file)
        if what == "consume":
            for group in those:
                running.enter_context(consumer(names, books, group))
        else:
            for number in map(int, those):
                thread = threading.Thread(target=produce, args=(names, books, number, is_over))
                thread.start()
                running.callback(thread.join)
        is_over.wait()


if __name__ == "__main__":
    main()
