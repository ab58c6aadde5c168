"""Records `/metrics` of the reference: a Java 5.3.3 broker with metricsExporterType=PROM, after a little of everything.

The text is kept as tests/golden/metrics/broker-5.3.3.txt, which says what names, units, labels and buckets ours must
have. Anew: `python -m tests.interop.record_metrics FILE`.
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

from cometmq import (
    Admin,
    ConsumeFrom,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushConsumerSettings,
    SimpleConsumer,
    StoredMessage,
    Tag,
)
from cometmq.model.errors import ClientError
from cometmq.model.group import GroupConfig
from tests.interop import clients, reference
from tests.support.metrics_page import page
from tests.support.processes import free_port, wait_until

TOPIC, TIMED, GROUP, POPS, GIVES_UP = "Recorded", "RecordedTimed", "readers", "pops", "gives-up"
SECONDS = 60


def everything(names: str, stack: ExitStack, *, rest_seconds: float) -> None:
    """A little of everything that a metric is about: sends of each kind, pulls, pops, retries, dead letters.

    Its clients stay until the stack is closed.
    """
    admin = stack.enter_context(Admin(names))
    for topic in (TOPIC, TIMED):
        admin.topics.create(topic, queues=4)
    for group in (GROUP, POPS):
        admin.groups.create(GroupConfig(group))
    admin.groups.create(GroupConfig(GIVES_UP, retry_max_times=0))
    wait_until(lambda: _is_known(admin), seconds=SECONDS, what="the routes of the topics")
    producer = stack.enter_context(
        Producer(names, settings=ProducerSettings(send_timeout_ms=20_000))
    )
    _send(producer)
    got = _consume(names, stack, GROUP, (TOPIC, TIMED), is_refused=False)
    refused = _consume(names, stack, GIVES_UP, (TOPIC,), is_refused=True)
    pops = stack.enter_context(
        SimpleConsumer(names, group=POPS, subscriptions={TOPIC: Tag("*")})
    )
    _pop(pops)
    wait_until(lambda: len(got) >= 26 and len(refused) >= 20, seconds=SECONDS, what="messages")
    time.sleep(rest_seconds)


def _consume(
    names: str, stack: ExitStack, group: str, topics: Sequence[str], *, is_refused: bool
) -> list[StoredMessage]:
    """A consumer that takes every message, or none: what is refused goes to the dead letters at once."""
    got: list[StoredMessage] = []

    def listen(message: StoredMessage) -> bool:
        got.append(message)
        return not is_refused

    settings = PushConsumerSettings(
        consume_from=ConsumeFrom.FIRST, retries_max=0 if is_refused else -1
    )
    subscriptions = dict.fromkeys(topics, Tag("*"))
    consumer = PushConsumer(
        names, group=group, listener=listen, subscriptions=subscriptions, settings=settings
    )
    stack.enter_context(consumer)
    return got


def _is_known(admin: Admin) -> bool:
    try:
        return all(admin.topics.route(topic).queues for topic in (TOPIC, TIMED))
    except ClientError:  # Not yet.
        return False


def _send(producer: Producer) -> None:
    for number in range(20):
        producer.send(
            Message(TOPIC, b"x" * (1 + 100 * number), tag="tag", keys=f"key-{number}")
        )
    producer.send(Message(TOPIC, b"in order", properties={"__SHARDINGKEY": "one"}))
    producer.send(Message(TIMED, b"by level", delay_level=1))
    producer.send(Message(TIMED, b"by time", deliver=timedelta(seconds=2)))
    with producer.transaction(Message(TOPIC, b"committed")):
        pass
    with producer.transaction(Message(TOPIC, b"rolled back")) as transaction:
        transaction.rollback()
    producer.send_batch([Message(TOPIC, b"one"), Message(TOPIC, b"two")])


def _pop(consumer: SimpleConsumer) -> None:
    got: list[StoredMessage] = []
    end = time.monotonic() + SECONDS
    while len(got) < 10 and time.monotonic() < end:
        got += consumer.receive(8, wait_ms=1_000, invisible_ms=10_000)
    consumer.ack(got[:5])


def record(folder: Path) -> str:
    """Start the reference, do everything, and give its metrics."""
    port = free_port()
    settings = {
        **clients.BROKER_SETTINGS,
        "metricsExporterType": "PROM",
        "metricsPromExporterPort": port,
        "metricsPromExporterHost": "127.0.0.1",
        "timerWheelEnable": "true",
        "brokerName": "broker-a",
    }
    with reference.nameserver(folder / "nameserver") as names:
        broker = reference.broker(folder / "broker", names.address, settings=settings)
        with broker:
            reference.wait_registered(names.address)
            with ExitStack() as stack:
                # Pops that were not acknowledged come again: revive.
                everything(names.address, stack, rest_seconds=15)
                return page(port)


def main() -> int:
    """Write it into the file that was named."""
    with tempfile.TemporaryDirectory() as folder:
        Path(sys.argv[1]).write_text(record(Path(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
