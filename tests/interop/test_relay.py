"""The relay: a Java broker and ours open the same directory in turn, and each finds what both stored.

Each turn asks for everything that was ever stored, by key, by id and by time, adds messages, asks
for those, and ends: in order, or by kill -9. The index files are small, so that some are full.
"""

import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cometmq import Admin, Message, Producer, PullConsumer, StoredMessage
from cometmq.client.settings import ProducerSettings
from cometmq.model.errors import CometError
from tests.interop import reference
from tests.support import processes, topics
from tests.support.processes import Program, broker_port, wait_until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(400)]

TOPIC = "Relay"
ADDED = 250  # Messages of a turn.
A_KEY = 25  # Messages of one key, under the 64 that a query gives.
SETTINGS = {
    "autoCreateTopicEnable": "true",
    "defaultTopicQueueNums": 4,
    "maxHashSlotNum": 500,
    "maxIndexNum": 2_000,
}
CLEAN, KILL = signal.SIGTERM, signal.SIGKILL
# A clean stop of the Java broker takes 15 s, so there is one.
TURNS = [
    *[("Java", KILL), ("ours", KILL), ("Java", CLEAN), ("ours", CLEAN), ("Java", KILL)],
    *[("ours", CLEAN), ("Java", KILL), ("ours", KILL), ("Java", KILL), ("ours", KILL)],
]


@dataclass
class Relay:
    """The directory, and what must be in it."""

    folder: Path
    names: str
    port: int = field(default_factory=broker_port)
    stored: list[StoredMessage] = field(default_factory=list)

    def begin(self, kind: str) -> Program:
        make = processes.broker if kind == "ours" else reference.broker
        program = make(self.folder, self.names, port=self.port, settings=SETTINGS)
        program.start()
        wait_until(self.is_served, seconds=60, what=f"{TOPIC} at {program.address}")
        return program

    def is_served(self) -> bool:
        """Whether the nameserver leads to a broker that answers and has read its store."""
        try:
            with PullConsumer(self.names) as consumer:
                ends = [consumer.max_offset(queue) for queue in consumer.queues("TBW102")]
                if self.stored:
                    ends = [consumer.max_offset(queue) for queue in consumer.queues(TOPIC)]
            return sum(ends) >= len(self.stored)
        except CometError:  # Not there yet, in whatever way.
            return False

    def add(self, turn: int) -> None:
        messages = [
            Message(
                TOPIC,
                b"%d-%d" % (turn, number),
                keys=(f"t{turn}", f"k{turn}-{number // A_KEY}"),
            )
            for number in range(ADDED)
        ]
        settings = ProducerSettings(send_timeout_ms=10_000)
        with Producer(self.names, group="relay", settings=settings) as producer:
            results = producer.send_many(messages)
        assert len({result.message_id for result in results}) == ADDED
        self.stored = topics.read(self.names, TOPIC)
        assert len(self.stored) == (turn + 1) * ADDED

    # --- what is asked

    def ask_by_key(self) -> None:
        """Every key; a Java broker may give a message twice, which it indexed again."""
        by_key: dict[str, set[str]] = {}
        for message in self.stored:
            by_key.setdefault(message.keys[1], set()).add(message.message_id)
        with Admin(self.names) as admin:
            for key, wanted in by_key.items():
                found = admin.messages.by_key(TOPIC, key)
                assert {message.message_id for message in found} == wanted, key

    def ask_by_id(self) -> None:
        with Admin(self.names) as admin:
            for message in self.stored[::37]:
                assert admin.messages.by_id(TOPIC, message.message_id) == plain(message)
                assert admin.messages.view(message.offset_message_id) == plain(message)

    def ask_by_time(self) -> None:
        with PullConsumer(self.names) as consumer:
            for queue in consumer.queues(TOPIC):
                times = [
                    message.stored_ms
                    for message in self.stored
                    if message.queue.queue_id == queue.queue_id
                ]
                for at in sorted({times[0] - 1, *times[:: len(times) // 4], times[-1] + 1}):
                    first = sum(each < at for each in times)
                    last = max(sum(each <= at for each in times) - 1, 0)
                    assert consumer.offset_by_time(queue, at) == first
                    assert consumer.offset_by_time(queue, at, upper=True) == last

    def ask_all(self) -> None:
        assert [plain(message) for message in topics.read(self.names, TOPIC)] == [
            plain(message) for message in self.stored
        ]
        self.ask_by_key()
        self.ask_by_id()
        self.ask_by_time()


def plain(message: StoredMessage) -> StoredMessage:
    """Without what a pull adds to the properties."""
    properties = {
        name: value
        for name, value in message.properties.items()
        if name not in {"MIN_OFFSET", "MAX_OFFSET"}
    }
    values = {name: getattr(message, name) for name in StoredMessage.__dataclass_fields__}
    return StoredMessage(**{**values, "properties": properties})


def test_java_and_ours_take_turns_at_one_directory(tmp_path):
    with processes.nameserver(tmp_path / "nameserver") as names:
        relay = Relay(tmp_path / "broker", names.address)
        for turn, (kind, how) in enumerate(TURNS):
            began = time.monotonic()
            program = relay.begin(kind)
            try:
                if relay.stored:
                    relay.ask_all()
                relay.add(turn)
                relay.ask_all()
                program.end(how)
            finally:
                program.kill()
            print(f"turn {turn} {kind} {how.name} {time.monotonic() - began:.1f} s")
