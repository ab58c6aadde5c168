"""The parts of which a broker's features are made, and the base of a feature.

Retries, delays, transactions, pop and the like are each a package or module of their own. It is
made from the parts, names the requests that it answers, and is started and closed with the broker;
so `broker.server` lists features and knows none of them.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import field
from random import Random
from typing import Protocol, TypeVar

from cometmq.access.guard import AccessGuard
from cometmq.broker.counters.counters import Counters
from cometmq.broker.inner.puts import InnerPuts
from cometmq.broker.inner.reroute import Reroute
from cometmq.broker.loop.runner import World
from cometmq.broker.loop.turns import Turns
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.broker.tables.cold_readers import ColdReaders
from cometmq.broker.tables.groups import Groups
from cometmq.broker.tables.locks import QueueLocks
from cometmq.broker.tables.long_polls import LongPolls
from cometmq.broker.tables.master_table import MasterTable
from cometmq.broker.tables.members import Members
from cometmq.broker.tables.offsets import Offsets
from cometmq.broker.tables.positions import GroupPositions
from cometmq.broker.tables.replication_state import ReplicationState
from cometmq.broker.tables.table_copies import TableCopies
from cometmq.broker.tables.topics import Topics
from cometmq.model.clock import Clock
from cometmq.model.frozen import dataclass
from cometmq.model.settings import SettingsInForce
from cometmq.net.channels import Channels
from cometmq.net.requests import Answers, AnyHandler
from cometmq.store.config_file import ConfigFile
from cometmq.store.disk import Disk
from cometmq.store.message_store import MessageStore


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a broker that a feature may use.

    Attributes:
        settings: of the broker; some change while it runs, so they are read when they matter.
        in_force: changes them, and tells who wants to know.
        address: of the broker, "ip:port".
        store: where messages are; owned by the loop.
        clock: all time.
        disk: all files.
        pool: threads for what waits for the device.
        chance: picks queues; it protects nothing.
        world: what machines are run in (docs/design/0040).
        channels: connections to others.
        turns: where work that may take long waits for its turn.
        inner: puts of the broker's own messages.
        cold: who has read how much that was not in memory.
        reroutes: to be appended to by who stores sends elsewhere.
        positions: what groups have not consumed.
        replication: tells how the copies of the log stand.
        registered: tells whether a nameserver knows this broker.
        config_file: gives a file of the folder config by its name.
        table_copies: The tables that slaves have of this broker.
        guard: accounts of ACL 1.0 and users of Auth 2.0, where they are on.
    """

    settings: BrokerSettings
    in_force: SettingsInForce[BrokerSettings]
    address: str
    store: MessageStore
    clock: Clock
    disk: Disk
    pool: Executor
    chance: Random
    world: World
    topics: Topics
    groups: Groups
    offsets: Offsets
    members: Members
    locks: QueueLocks
    polls: LongPolls
    counters: Counters
    cold: ColdReaders
    channels: Channels
    turns: Turns
    inner: InnerPuts
    config_file: Callable[[str], ConfigFile]
    positions: GroupPositions
    replication: Callable[[], ReplicationState]
    registered: Callable[[], bool]
    guard: AccessGuard = AccessGuard()
    table_copies: TableCopies = field(default_factory=TableCopies)
    reroutes: list[Reroute] = field(default_factory=list)


class NamesKept(Protocol):
    """A table or feature that keeps something under the names of topics or groups."""

    def forget_topic(self, topic: str) -> None:
        """Forget all that is kept under the name of a topic, because it is deleted; it may be made again at any time."""

    def forget_group(self, group: str) -> None:
        """Forget all that is kept under the name of a group, because it is deleted; it may be made again at any time."""


class Feature:
    """A part of a broker that has requests and a life of its own. Made with `Parts`.

    Attributes:
        answers: the requests that it answers, by code; who may send them says broker.requests.
        master_tables: what it has of a master where this broker is a slave.
    """

    answers: Mapping[int, AnyHandler] = {}
    master_tables: Sequence[MasterTable] = ()

    def facts(self) -> Mapping[str, str]:
        """The numbers that the feature adds to those that consoles show (GET_BROKER_RUNTIME_INFO)."""
        return {}

    def forget_topic(self, topic: str) -> None:
        """Forget a topic, as `NamesKept` says."""

    def forget_group(self, group: str) -> None:
        """Forget a group, as `NamesKept` says."""

    async def start(self) -> None:
        """The broker's tables are loaded and its ports are taken; nobody has been served yet."""

    async def follow(self) -> None:
        """Start as a slave: nothing of it writes into the log, which is its master's. As a master, where it never does."""
        await self.start()

    async def close(self) -> None:
        """Nobody is served any more; the store is still open."""


def follow_deletions(parts: Parts, features: Sequence[NamesKept]) -> None:
    """Let every table and feature of a broker hear of each topic and each group that is deleted."""
    topics, groups, store = parts.topics, parts.groups, parts.store
    tables: list[NamesKept] = [parts.offsets, parts.locks, parts.polls, *features]
    for each in tables:
        topics.on_delete.append(each.forget_topic)
        groups.on_delete.append(each.forget_group)
    topics.on_delete.append(groups.forget_topic)
    topics.deleted.fit(store.min_offset, store.max_offset)
    store.on_truncated.append(lambda end: topics.deleted.fit(0, end))


F = TypeVar("F", bound=Feature)


class RequestHandler(Protocol):
    """A handler of the requests of a feature.

    Attributes:
        answers: its requests, by code.
    """

    @property
    def answers(self) -> Answers: ...  # noqa: D102


def asked_by(
    handler: Callable[[F], RequestHandler], make: Callable[[Parts], F]
) -> Callable[[Parts], Feature]:
    """A feature that knows no frame, with the handler of its requests."""

    def make_both(parts: Parts) -> Feature:
        feature = make(parts)
        feature.answers = handler(feature).answers
        return feature

    return make_both
