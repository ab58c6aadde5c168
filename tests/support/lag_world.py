"""A cluster whose groups are behind in every way there is, with how far each of them truly is.

A master with a slave, and a second master. A consumer of ours commits where it begins; one that never committed is made
by a heartbeat and pulls of its own (`tests/unit/broker/test_group_positions.py`).
"""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from cometmq import (
    Admin,
    ConsumeFrom,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
    PushConsumerSettings,
    SimpleConsumer,
    StoredMessage,
)
from cometmq.admin import GroupConfig
from tests.support import processes
from tests.support.command_line import run
from tests.support.metrics_page import samples
from tests.support.processes import Program, free_port, wait_until

TOPIC = "orders"
QUEUES, EACH = 2, 10  # At each of two masters: 40 messages.
BROKERS = ("broker-a", "broker-b")
STOPS_AT = 2  # Who is stuck later has handled so many of each queue.
# What is not consumed of the 40; None: nobody can know.
TRUTH: dict[str, int | None] = {
    "healthy": 0,
    "stuck-first": 40,
    "stuck-later": 32,
    "ordered": 32,
    "offline": 34,
    "offline-at-one": 37,
    "popping": 38,
    "broadcasting": None,
    "never-committed": None,
}
AT_ONE_BROKER = 17  # What broker-a alone knows of that group.
LIVE = ("healthy", "stuck-first", "stuck-later", "ordered", "broadcasting")


@dataclass
class LagWorld:
    """The cluster.

    Attributes:
        names: The address of its nameserver.
        programs: Its brokers: broker-a, slave, broker-b.
        pages: Their ports of metrics.
    """

    names: str
    programs: dict[str, Program]
    pages: dict[str, int]

    def listed(self) -> dict[str, tuple[int, list[str]]]:
        """What `cometmq group list` says: known lag, and why it may be more."""
        done = run("group", "list", "--json", nameserver=self.names)
        return {
            each["group"]: (each["lag"], each["lag_unknown"])
            for each in orjson.loads(done.stdout)
        }

    def lags(self) -> dict[str, int | None]:
        """The lag of each group in the list; None if it may be more."""
        return {
            group: None if unknown else lag for group, (lag, unknown) in self.listed().items()
        }

    def scraped(self, *brokers: str) -> dict[str, float]:
        """The lag of each group as a sum over the pages of these brokers."""
        sums: dict[str, float] = defaultdict(float)
        for broker in brokers:
            for labels, value in samples(self.pages[broker], "rocketmq_consumer_lag_messages"):
                sums[labels["consumer_group"]] += value
        return sums


@contextmanager
def lag_world(folder: Path) -> Iterator[LagWorld]:
    """Start the cluster and its groups; all of them are as far as they get."""
    with ExitStack() as stack:
        names = stack.enter_context(processes.nameserver(folder / "names")).address
        world = LagWorld(names, {}, {})
        roles: dict[str, dict[str, object]] = {
            "broker-a": {},
            "slave": {"brokerRole": "SLAVE", "brokerId": 1, "slaveReadEnable": "true"},
            "broker-b": {"brokerName": "broker-b"},
        }
        for name, settings in roles.items():
            world.pages[name] = free_port()
            settings = {**settings, "metricsPromExporterPort": world.pages[name]}  # noqa: PLW2901
            program = processes.broker(folder / name, names, settings=settings)
            world.programs[name] = stack.enter_context(program)
        _fill(names)
        _offline(names)
        _members(names, folder, stack)
        wait_until(
            lambda: world.lags() == TRUTH, seconds=60, what="all groups as far as they get"
        )
        yield world


def _queues() -> list[MessageQueue]:
    return [
        MessageQueue(TOPIC, broker, number) for broker in BROKERS for number in range(QUEUES)
    ]


def _fill(names: str) -> None:
    with Admin(names) as admin:
        admin.topics.create(TOPIC, queues=QUEUES)
        for group in TRUTH:
            admin.groups.create(GroupConfig(group))
    with Producer(names) as producer:
        for number in range(EACH):
            for queue in _queues():
                producer.send(Message(TOPIC, b"%d" % number), queue=queue)


def _offline(names: str) -> None:
    """Three messages of a queue are consumed, at each broker or at one; of the other queues there is no offset."""
    with PullConsumer(names, group="offline") as consumer:
        for queue in _queues()[::QUEUES]:
            consumer.commit(queue, 3)
    with PullConsumer(names, group="offline-at-one") as consumer:
        consumer.commit(_queues()[0], 3)


class StuckMembers:
    """Listeners that hang until `over` is set."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def at_once(self, _message: StoredMessage) -> None:
        self.over.wait(300)

    def later(self, message: StoredMessage) -> None:
        """Hang in the message after STOPS_AT others of its queue."""
        if message.body == b"%d" % STOPS_AT:
            self.over.wait(300)


def _members(names: str, folder: Path, stack: ExitStack) -> None:
    stuck = StuckMembers()
    listeners = {
        "healthy": lambda _: None,
        "stuck-first": stuck.at_once,
        "stuck-later": stuck.later,
        "ordered": stuck.later,
        "broadcasting": lambda _: None,
    }
    for group, listener in listeners.items():
        settings = PushConsumerSettings(
            consume_from=ConsumeFrom.FIRST,
            orderly=group == "ordered",
            broadcasting=group == "broadcasting",
            offsets_folder=str(folder / "offsets"),
            close_timeout_ms=1_000,
        )
        stack.enter_context(
            PushConsumer(
                names, group=group, listener=listener, subscriptions=[TOPIC], settings=settings
            )
        )
    # Closed last to first: who hangs is let go before consumers close.
    popping = stack.enter_context(SimpleConsumer(names, group="popping", subscriptions=[TOPIC]))
    taken: list[StoredMessage] = []

    def has_taken() -> bool:
        taken.extend(popping.receive(5, invisible_ms=300_000))
        return {message.queue.broker_name for message in taken} == {*BROKERS}

    wait_until(has_taken, seconds=30, what="popped messages of each broker")
    popping.ack(taken[1:3])
    stack.callback(stuck.over.set)
