"""Messages that died, that wait and that were traced: each made by the real thing."""

from dataclasses import dataclass
from datetime import timedelta

from cometmq import (
    Admin,
    ConsumeFrom,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushConsumerSettings,
    TransactionState,
)
from cometmq.admin import GroupConfig
from tests.dashboard.world import RIGHT_TO_LEFT, SCRIPT
from tests.support.processes import wait_until

TOPIC, GROUP, FINE = "letters", "dying", "living"
KEYS = "shown"  # A namespace of the key-value configuration.
LETTERS = {"one": b"one", "bytes": b"\xff\x00", "script": SCRIPT.encode()}


@dataclass
class Special:
    """Ids of messages."""

    traced: str
    delayed: str
    timed: str
    half: str


class Unsure:
    """A producer that never decides."""

    def execute(self, message, argument):
        return TransactionState.UNKNOWN

    def check(self, message):
        return TransactionState.UNKNOWN


def fails(message):
    raise ValueError("it cannot be consumed")


def make_special(nameserver: str) -> Special:
    """Send all of them, and wait until they are where they belong."""
    with Admin(nameserver) as asked:
        asked.topics.create(TOPIC, queues=2)
        asked.groups.create(GroupConfig(GROUP))
        asked.groups.create(GroupConfig(FINE))
        asked.brokers.set_kv_value(KEYS, "colour", "blue")
        traced, first = ProducerSettings(trace=True), ConsumeFrom.FIRST
        settings = PushConsumerSettings(consume_from=first, trace=True, retries_max=0)
        with (
            Producer(nameserver, group="makes_letters", settings=traced) as producer,
            Producer(nameserver, group="unsure", transaction_listener=Unsure()) as unsure,
        ):
            dying = PushConsumer(nameserver, group=GROUP, listener=fails, settings=settings)
            living = PushConsumer(
                nameserver, group=FINE, listener=lambda _: None, settings=settings
            )
            for each in (dying, living):
                each.subscribe(TOPIC)
                each.start()
            sent = [
                producer.send(
                    Message(
                        TOPIC,
                        body,
                        tag=SCRIPT,
                        keys=(key, RIGHT_TO_LEFT),
                        properties={"a": "b"},
                    )
                )
                for key, body in LETTERS.items()
            ]
            delayed = producer.send(Message(TOPIC, b"later", delay_level=18))
            timed = producer.send(Message(TOPIC, b"at a time", deliver=timedelta(hours=1)))
            half = unsure.send_in_transaction(Message(TOPIC, b"half of it"))
            wait_until(lambda: dead(asked) == len(LETTERS), seconds=30, what="dead letters")
            dying.close()
            living.close()
    return Special(
        sent[0].message_id, delayed.message_id, timed.message_id, half.send.message_id
    )


def dead(asked: Admin) -> int:
    """How many dead letters there are."""
    topic = f"%DLQ%{GROUP}"
    if topic not in asked.topics.list():
        return 0
    return sum(each.message_count for each in asked.topics.offsets(topic).values())
