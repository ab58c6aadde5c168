"""The state of brokers, topics and groups, put together from what each broker says.

A broker that does not answer costs its own part of an answer: it stands there with the reason, where the answer has
a place for it; else its error is raised.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from cometmq.client.api.asking import all_of, side_by_side
from cometmq.client.api.broker import BrokerApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.codec.bodies.connection import ClientConnection, ConsumerConnections
from cometmq.codec.bodies.running import RunningState
from cometmq.codec.bodies.stats import ConsumeStats, QueueProgress, TopicStats
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import BrokerRefused, CometError, GroupNotFound, TopicNotFound
from cometmq.model.flags import is_writable
from cometmq.model.group import GroupConfig
from cometmq.model.queue import MessageQueue
from cometmq.model.route import BrokerData
from cometmq.model.subscription import Subscription

Value = TypeVar("Value")


class BrokerState(NamedTuple):
    """A member of a broker group, with the state that it reports.

    Attributes:
        cluster: of the group.
        broker_name: of the group.
        broker_id: 0 is the master.
        address: where it listens.
        is_writable: whether routes name it to those who send; None: no route tells.
        runtime: its numbers, by RocketMQ's names; empty where it did not answer.
        error: why not.
    """

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    is_writable: bool | None
    runtime: Mapping[str, str]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class GroupState:
    """A consumer group over all brokers.

    Attributes:
        name: its name.
        configs: its settings by broker name.
        progress: how far it is, by queue; of its retry topic, too.
        rate: messages that it consumes a second.
        members: who is there, without those that several brokers name twice.
        subscriptions: what the members want, by topic.
        consume_type: of the members, as RocketMQ calls it; None without any.
        model: CLUSTERING or BROADCASTING; None without any member.
    """

    name: str
    configs: Mapping[str, GroupConfig] = field(default_factory=dict)
    progress: Mapping[MessageQueue, QueueProgress] = field(default_factory=dict)
    rate: float = 0.0
    members: tuple[ClientConnection, ...] = ()
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)
    consume_type: str | None = None
    model: str | None = None

    @property
    def lag(self) -> int:
        """Messages of all queues that the group has not consumed yet."""
        return sum(max(each.lag, 0) for each in self.progress.values())

    @property
    def is_known(self) -> bool:
        """Whether a broker knows it: by its settings, by where it stands, or by a member."""
        return bool(self.configs or self.progress or self.members)

    @property
    def topics(self) -> list[str]:
        """The topics in which the group has offsets or that its members subscribe to, sorted."""
        return sorted({*self.subscriptions, *(queue.topic for queue in self.progress)})


def group_not_found(group: str) -> GroupNotFound:
    """The error that no broker knows a group, so that a misspelt one is none without a backlog."""
    return GroupNotFound(
        f"no broker knows the consumer group {group!r}: make it (cometmq group create, Admin.create_group), "
        "or start a member"
    )


class States:
    """Asks for the state of brokers, topics and groups, for one client."""

    def __init__(self, instance: ClientInstance) -> None:
        """Use these connections."""
        self._instance = instance
        self._api = BrokerApi(instance)

    # --- brokers

    async def brokers(
        self, registered: Mapping[str, BrokerData] | None = None
    ) -> list[BrokerState]:
        """Each member of each broker group; without `registered`, of those that the nameserver knows."""
        if registered is None:
            registered = (await self._instance.nameserver_api.cluster()).brokers
        members = [
            (broker.cluster, name, broker_id, address)
            for name, broker in sorted(registered.items())
            for broker_id, address in sorted(broker.addresses.items())
        ]
        names = list(registered)
        said = await side_by_side(self._api.runtime, [each[3] for each in members])
        writable = dict(
            zip(names, all_of(await side_by_side(self._is_writable, names)), strict=True)
        )
        return [
            BrokerState(*member, writable[member[1]], {}, str(answer))
            if isinstance(answer, CometError)
            else BrokerState(*member, writable[member[1]], answer)
            for member, answer in zip(members, said, strict=True)
        ]

    async def _is_writable(self, broker_name: str) -> bool | None:
        """Whether messages may be sent to a broker, as the route of its own topic says."""
        try:
            route = await self._instance.nameserver_api.route(broker_name)
        except TopicNotFound:
            return None
        except BrokerRefused as refused:
            # Who may ask about the cluster need not have a right to this topic.
            if refused.code != ResponseCode.NO_PERMISSION:
                raise
            return None
        perms = [each.perm for each in route.queues if each.broker_name == broker_name]
        return is_writable(perms[0]) if perms else None

    # --- topics

    async def topic(self, topic: str) -> TopicStats:
        """The offsets and last store time of each queue of a topic, and its messages put a second."""
        parts = await self._at_brokers_of(
            topic, lambda address: self._api.topic_stats(address, topic)
        )
        queues = {queue: each for part in parts for queue, each in part.queues.items()}
        return TopicStats(dict(sorted(queues.items())), sum(part.put_rate for part in parts))

    async def groups_of_topic(self, topic: str) -> list[str]:
        """The consumer groups of a topic."""
        parts = await self._at_brokers_of(
            topic, lambda address: self._api.groups_of_topic(address, topic)
        )
        return sorted({group for part in parts for group in part})

    async def _at_brokers_of(
        self, topic: str, ask: Callable[[str], Awaitable[Value]]
    ) -> list[Value]:
        brokers = (await self._instance.nameserver_api.route(topic)).brokers
        addresses = [address for each in brokers if (address := each.master_or_any())]
        return all_of(await side_by_side(ask, addresses))

    # --- groups

    async def groups(self, masters: Mapping[str, str] | None = None) -> list[GroupState]:
        """Every consumer group of these masters, or of all; three waves of requests, whatever their number."""
        masters = masters or await self._instance.nameserver_api.masters()
        addresses = list(masters.values())
        configs = all_of(await side_by_side(self._api.groups, addresses))
        stats = all_of(await side_by_side(self._api.all_consume_stats, addresses))
        names = {*(name for part in configs for name in part)}
        names |= {name for part in stats for name in part}
        asked = [(address, name) for name in sorted(names) for address in addresses]
        members = await side_by_side(lambda pair: self._api.consumer_connections(*pair), asked)
        there: dict[str, list[ConsumerConnections]] = {}
        for (_, name), answer in zip(asked, members, strict=True):
            if isinstance(answer, CometError):
                raise answer
            if answer is not None:
                there.setdefault(name, []).append(answer)
        return [
            _group_state(
                name,
                {
                    broker: part[name]
                    for broker, part in zip(masters, configs, strict=True)
                    if name in part
                },
                [topic for part in stats for topic in part.get(name, ())],
                there.get(name, ()),
            )
            for name in sorted(names)
        ]

    async def group(self, group: str) -> GroupState:
        """The state of one consumer group; empty where no broker knows it."""
        masters = await self._instance.nameserver_api.masters()
        addresses = list(masters.values())
        configs = all_of(await side_by_side(self._api.groups, addresses))
        stats = all_of(
            await side_by_side(
                lambda address: self._api.consume_stats(address, group, None), addresses
            )
        )
        members = all_of(
            await side_by_side(
                lambda address: self._api.consumer_connections(address, group), addresses
            )
        )
        ours = {
            broker: part[group]
            for broker, part in zip(masters, configs, strict=True)
            if group in part
        }
        return _group_state(group, ours, stats, [each for each in members if each is not None])

    async def running(self, group: str, client_id: str, *, stacks: bool) -> RunningState:
        """The state that a member of a group reports, by way of any broker that knows it."""
        masters = await self._instance.nameserver_api.masters()
        failure: BrokerRefused | None = None
        for address in masters.values():
            try:
                return await self._api.running_state(address, group, client_id, stacks=stacks)
            except BrokerRefused as refused:
                failure = refused
        assert failure is not None, "there is always one master"
        raise failure


def _group_state(
    name: str,
    configs: Mapping[str, GroupConfig],
    stats: Iterable[ConsumeStats],
    parts: Iterable[ConsumerConnections],
) -> GroupState:
    stats, parts = list(stats), list(parts)
    members = {each.client_id: each for part in parts for each in part.connections}
    return GroupState(
        name,
        configs,
        {queue: each for part in stats for queue, each in sorted(part.queues.items())},
        sum(part.rate for part in stats),
        tuple(members[key] for key in sorted(members)),
        {topic: each for part in parts for topic, each in sorted(part.subscriptions.items())},
        parts[0].consume_type if parts else None,
        parts[0].model if parts else None,
    )
