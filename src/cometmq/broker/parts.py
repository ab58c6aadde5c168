"""The services that a broker gives its features, and the base class of features.

A feature is a part of the broker with a package or module of its own, such as retries, transactions or pop. It is
created from `Parts`, lists the requests that it answers, if any, and is started and closed by `broker.role`.
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
from cometmq.broker.loop.turns import Turns
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.broker.tables.cold_readers import ColdReaders
from cometmq.broker.tables.groups import Groups
from cometmq.broker.tables.lanes import Lanes
from cometmq.broker.tables.locks import QueueLocks
from cometmq.broker.tables.logged_table import LoggedTable
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
from cometmq.steps.on_loop import RunSteps
from cometmq.steps.runner import World
from cometmq.steps.steps import Steps
from cometmq.store.config_file import ConfigFile
from cometmq.store.disk import Disk
from cometmq.store.message_store import MessageStore


@dataclass(frozen=True, slots=True)
class LastingParts:
    """The services of a broker that stay when its role changes between master and slave.

    Attributes:
        settings: The broker's settings; read them when needed, because some change at run time.
        in_force: Changes settings, and notifies of changes.
        address: The broker's address, "ip:port".
        listen_host: The host that it listens on.
        store: The messages.
        pool: Threads for work that waits for the disk.
        chance: Random numbers for choosing queues; not for security.
        world: Clock, timers and threads for background jobs (docs/design/0040).
        channels: Connections to other servers.
        turns: Schedules work that may take long.
        lanes: Cache of queues that have passed the checks of sends.
        inner: Writes messages for the broker itself, such as retries.
        cold: Limits what groups may pull from the disk, if that is on.
        config_file: Returns a file in the folder config by name.
        guard: The check of requests, with the accounts of ACL 1.0 and users of Auth 2.0, if they are on.
    """

    settings: BrokerSettings
    in_force: SettingsInForce[BrokerSettings]
    address: str
    listen_host: str
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
    lanes: Lanes
    inner: InnerPuts
    config_file: Callable[[str], ConfigFile]
    guard: AccessGuard


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(LastingParts):
    """The services of a broker that features may use: those of `LastingParts`, and some of its current role.

    Attributes:
        positions: The lag of groups.
        replication: Returns the state of replication.
        registered: Returns whether any nameserver accepted the last registration.
        topics_known: Waits up to 1 s until the nameservers that accepted the last registration have all changed topics.
        run: Runs steps to their end, of which the role waits before it leaves, so that no thread changes a table later.
        table_copies: Tracks which tables slaves have copied from this broker.
        reroutes: A feature that stores sends elsewhere, or refuses some, appends its function.
    """

    positions: GroupPositions
    replication: Callable[[], ReplicationState]
    registered: Callable[[], bool]
    topics_known: Callable[[], Steps[None]]
    run: RunSteps
    table_copies: TableCopies = field(default_factory=TableCopies)
    reroutes: list[Reroute] = field(default_factory=list)


class NamesKept(Protocol):
    """A table or feature that stores something by topic or group."""

    def forget_topic(self, topic: str) -> None:
        """Forget everything about a deleted topic; one of the same name may be created at any time."""

    def forget_group(self, group: str) -> None:
        """Forget everything about a deleted group; one of the same name may be created at any time."""


class Feature:
    """A part of a broker with requests and a life cycle of its own, created from `Parts`.

    Attributes:
        answers: The requests that it answers, by code; broker.requests says who may send them.
        master_tables: The tables of this feature that a slave copies from its master.
        logged_tables: Its tables that a group which elects its leader keeps in its log instead.
    """

    answers: Mapping[int, AnyHandler] = {}
    master_tables: Sequence[MasterTable] = ()
    logged_tables: Sequence[LoggedTable] = ()

    def facts(self) -> Mapping[str, str]:
        """Return the feature's additions to the runtime numbers (GET_BROKER_RUNTIME_INFO); by default none."""
        return {}

    def forget_topic(self, topic: str) -> None:
        """Forget everything about a deleted topic, see `NamesKept`; by default do nothing."""

    def forget_group(self, group: str) -> None:
        """Forget everything about a deleted group, see `NamesKept`; by default do nothing."""

    async def start(self) -> None:
        """Start the feature on a master, before its requests are served (slave: `follow`); by default do nothing."""

    async def follow(self) -> None:
        """Start the feature on a slave, where it must not write to the log; by default as on a master."""
        await self.start()

    async def close(self) -> None:
        """Stop the feature while the store is still open; by default do nothing."""


def follow_deletions(parts: Parts, features: Sequence[NamesKept]) -> None:
    """Let features, offsets, locks and held pulls forget deleted topics, and groups deleted with their offsets.

    The table of groups forgets deleted topics, and remembered deletions are adapted to the log, now and when it is cut.
    """
    topics, groups, store = parts.topics, parts.groups, parts.store
    tables: list[NamesKept] = [parts.offsets, parts.locks, parts.polls, *features]
    for each in tables:
        topics.on_delete.append(each.forget_topic)
        groups.on_delete.append(each.forget_group)
    topics.on_delete.append(groups.forget_topic)
    topics.deleted.fit(store.min_offset, store.max_offset)
    store.on_truncated.append(lambda end: topics.deleted.fit(0, end))


F = TypeVar("F", bound=Feature)


def asked_by(
    answers: Callable[[F], Answers], make: Callable[[Parts], F]
) -> Callable[[Parts], Feature]:
    """Return a function that creates a feature by `make` and gives it the request handlers that `answers` returns."""

    def make_both(parts: Parts) -> Feature:
        feature = make(parts)
        feature.answers = answers(feature)
        return feature

    return make_both
