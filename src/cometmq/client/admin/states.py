"""The state of brokers, topics and groups, combined from the answers of brokers.

Most results name the brokers that do not answer, with the reasons; other methods may raise the error of one.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import NamedTuple, TypeVar

from cometmq.client.admin.absent import (
    AbsentBroker,
    missing_brokers,
    queues_that_answer,
    silent_broker,
    those_that_answer,
)
from cometmq.client.admin.copies import is_refusal
from cometmq.client.api.asking import all_of, side_by_side
from cometmq.client.api.broker import BrokerApi
from cometmq.client.api.offsets import OffsetApi, OffsetBounds
from cometmq.client.connection.instance import ClientInstance
from cometmq.codec.bodies.connection import ClientConnection, ConsumerConnections
from cometmq.codec.bodies.heartbeat import BROADCASTING
from cometmq.codec.bodies.running import RunningState
from cometmq.codec.bodies.stats import ConsumeStats, QueueBounds, QueueProgress
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import (
    BrokerRefused,
    CometError,
    GroupNotFound,
    NetError,
    TopicNotFound,
)
from cometmq.model.flags import is_writable
from cometmq.model.group import GroupConfig
from cometmq.model.names import is_retry_topic, retry_topic
from cometmq.model.queue import MessageQueue
from cometmq.model.route import MASTER_ID, BrokerData, QueueData, TopicRoute
from cometmq.model.subscription import Subscription
from cometmq.model.text import in_quotes, plural
from cometmq.model.total import Total

Value = TypeVar("Value")

# The order of queues, without a call of their own comparison for each pair.
_IN_ORDER = attrgetter("topic", "broker_name", "queue_id")


class BrokerState(NamedTuple):
    """A member of a broker group, or its missing master, and the state that it reports.

    Attributes:
        cluster: Cluster of the broker group.
        broker_name: Name of the broker group.
        broker_id: 0 for the master.
        address: "host:port" of the broker; empty if it is not registered.
        is_writable: Whether the route of the topic named like the broker group permits sends; None: unknown.
        runtime: Its runtime values, under RocketMQ's names; empty if it did not report them.
        error: Why it did not report runtime values; None if it did.
        left_ms: Time when its broker group left the nameserver, ms since 1970; None if the group is registered.
        answered_ms: Local time when it reported its runtime values, ms since 1970; None if it did not.
        is_refused: Whether it answered that it does not permit this machine or user.
    """

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    is_writable: bool | None
    runtime: Mapping[str, str]
    error: str | None = None
    left_ms: int | None = None
    answered_ms: int | None = None
    is_refused: bool = False


@dataclass(frozen=True, slots=True)
class GroupState:
    """The state of a consumer group, combined from the brokers that answered.

    Attributes:
        name: Name of the group.
        configs: Its settings at each broker that has some, by broker name.
        progress: Offsets and lag by queue, including queues of retry topics.
        rate: Number of messages consumed per second, as brokers estimate it.
        members: Connected members, one for each client id.
        subscriptions: Subscriptions of the members, by topic.
        consume_type: Consume type of the members, in RocketMQ's terms; None without members.
        model: CLUSTERING or BROADCASTING; None without members.
        absent: Brokers that may have more of the group's messages but cannot be queried.
        uncounted: Other reasons why messages are not counted.
    """

    name: str
    configs: Mapping[str, GroupConfig] = field(default_factory=dict)
    progress: Mapping[MessageQueue, QueueProgress] = field(default_factory=dict)
    rate: float = 0.0
    members: tuple[ClientConnection, ...] = ()
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)
    consume_type: str | None = None
    model: str | None = None
    absent: tuple[AbsentBroker, ...] = ()
    uncounted: tuple[str, ...] = ()

    @property
    def lag(self) -> Total:
        """The number of messages after the group's offsets, as a `Total` with the reasons why it may be larger.

        It is 0 with a reason if its topics are unknown, or its connected members are broadcasting (with own offsets).
        """
        reasons = (*self.uncounted, *map(str, self.absent))
        if self.model == BROADCASTING:
            return Total(0, ("each member of a broadcasting group keeps its own offsets",))
        if not (reasons or self.subscriptions or self.progress):
            reasons = ("the group has no offsets and no members, so its topics are not known",)
        return Total(sum(each.lag for each in self.progress.values()), reasons)

    @property
    def oldest_ms(self) -> int | None:
        """The store time of the oldest message that is known not to be consumed, ms since 1970; None without one.

        RocketMQ's own brokers do not report it. An absent broker may have an older message.
        """
        known = [each.oldest_ms for each in self.progress.values() if each.oldest_ms > 0]
        return None if self.model == BROADCASTING else min(known, default=None)

    def in_topic(self, topic: str) -> "GroupState":
        """Return the group with the queues of one topic only; its messages to be retried are in another topic."""
        of_topic = {
            queue: each for queue, each in self.progress.items() if queue.topic == topic
        }
        absent = tuple(each for each in self.absent if each.has_any([topic]))
        return replace(self, progress=of_topic, absent=absent)

    @property
    def stopped_at(self) -> list[str]:
        """The names of the brokers whose settings forbid the group to consume, sorted."""
        return sorted(name for name, each in self.configs.items() if not each.consume_enabled)

    @property
    def is_known(self) -> bool:
        """Whether a broker that answered knows the group, by its settings, offsets or members."""
        return bool(self.configs or self.progress or self.members)

    @property
    def topics(self) -> list[str]:
        """The topics, including retry topics, in which the group has offsets or to which its members subscribe, sorted."""
        return sorted({*self.subscriptions, *(queue.topic for queue in self.progress)})


@dataclass(frozen=True, slots=True)
class TopicState:
    """The state of a topic, combined from the brokers that answered.

    Attributes:
        queues: Offsets of the queried queues at these brokers.
        put_rate: Number of messages stored per second; 0 if not queried or not reported.
        routed: Queues and permissions by broker, according to the topic's route.
        absent: Brokers that may have more queues of it but cannot be queried.
    """

    queues: Mapping[MessageQueue, QueueBounds]
    put_rate: float = 0.0
    routed: tuple[QueueData, ...] = ()
    absent: tuple[AbsentBroker, ...] = ()

    @property
    def messages(self) -> Total:
        """The number of messages in `queues`, as a `Total` whose reasons name the brokers that are not counted."""
        held = sum(each.max_offset - each.min_offset for each in self.queues.values())
        return Total(held, tuple(map(str, self.absent)))


class ProducerState(NamedTuple):
    """A member of a producer group that is connected to brokers.

    Attributes:
        group: Name of the producer group.
        client: The member, as one of the brokers reports it.
        brokers: Names of the broker groups whose masters it is connected to, sorted.
        seen_ms: Time of its last heartbeat at any of them, by the broker's clock, ms since 1970.
    """

    group: str
    client: ClientConnection
    brokers: tuple[str, ...]
    seen_ms: int


class ClusterProducers(NamedTuple):
    """The connected members of producer groups, sorted, and the brokers that cannot be queried for more of them."""

    found: tuple[ProducerState, ...]
    absent: tuple[AbsentBroker, ...]


def group_not_found(group: str, absent: Iterable[AbsentBroker] = ()) -> GroupNotFound:
    """Return the error for a group that no broker has; its text also names the `absent` brokers, which left or do not answer."""
    unasked = "".join(f"; {each}" for each in absent)
    return GroupNotFound(
        f"no broker has the consumer group {in_quotes(group)}: create it (cometmq group create, Admin.groups.create), "
        f"or start a member{unasked}"
    )


class _AskedBrokers(NamedTuple):
    """Brokers and settings of groups, which every query for groups needs first.

    Attributes:
        addresses: Addresses of the brokers to query, by broker name.
        configs: Settings of all groups at each of them that answers, by broker name and group.
        absent: Brokers that cannot be queried, by name.
    """

    addresses: Mapping[str, str]
    configs: Mapping[str, Mapping[str, GroupConfig]]
    absent: Mapping[str, AbsentBroker]


class States:
    """Queries the state of brokers, topics and groups, for one client."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self._api = BrokerApi(instance)
        self._offsets = OffsetApi(instance)

    # --- brokers

    async def brokers(
        self, registered: Mapping[str, BrokerData] | None = None
    ) -> list[BrokerState]:
        """Return the state of each member of the `registered` groups; None: of all registered ones and of missing masters."""
        away: list[BrokerState] = []
        if registered is None:
            registered = (await self._instance.nameserver_api.cluster()).brokers
            away = _away(registered, await missing_brokers(self._instance))
        members = [
            (broker.cluster, name, broker_id, address)
            for name, broker in sorted(registered.items())
            for broker_id, address in sorted(broker.addresses.items())
        ]
        names = list(registered)
        said = await side_by_side(self._runtime, [each[3] for each in members])
        writable = dict(
            zip(names, all_of(await side_by_side(self._is_writable, names)), strict=True)
        )
        states = [
            BrokerState(
                *member, writable[member[1]], {}, str(answer), is_refused=is_refusal(answer)
            )
            if isinstance(answer, CometError)
            else BrokerState(*member, writable[member[1]], answer[0], answered_ms=answer[1])
            for member, answer in zip(members, said, strict=True)
        ]
        return sorted([*states, *away], key=lambda each: (each.broker_name, each.broker_id))

    async def _runtime(self, address: str) -> tuple[Mapping[str, str], int]:
        numbers = await self._api.runtime(address)
        return numbers, self._instance.clock.now_ms()

    async def _is_writable(self, broker_name: str) -> bool | None:
        """Return whether the route of the topic named like a broker permits sends to it; None if unknown."""
        try:
            route = await self._instance.nameserver_api.route(broker_name)
        except TopicNotFound:
            return None
        except BrokerRefused as refused:
            # A user who may query the cluster need not have a right to this topic.
            if refused.code != ResponseCode.NO_PERMISSION:
                raise
            return None
        perms = [each.perm for each in route.queues if each.broker_name == broker_name]
        return is_writable(perms[0]) if perms else None

    # --- topics

    async def missing(self) -> list[AbsentBroker]:
        """Return the broker groups that left and that a CometMQ nameserver remembers; empty if it does not report any."""
        return await missing_brokers(self._instance)

    async def topic(
        self, topic: str, missing: Sequence[AbsentBroker] | None = None
    ) -> TopicState:
        """Return the offsets and last store times of a topic's queues at the brokers that answer, and its store rate.

        `missing` is the result of the method `missing`; None: it is queried. Raises TopicNotFound if no route and no
        missing broker has the topic, NetError if no broker of the route answers, and BrokerRefused if one refuses.
        """
        if missing is None:
            missing = await self.missing()
        absent = {each.name: each for each in missing if each.has_any([topic])}
        try:
            route = await self._instance.nameserver_api.route(topic)
        except TopicNotFound:
            if not absent:
                raise
            route = TopicRoute((), ())  # The topic was at a broker that has left.
        addresses = {
            each.broker_name: address
            for each in route.brokers
            if (address := each.master_or_any())
        }
        answers = await side_by_side(
            lambda address: self._api.topic_stats(address, topic), addresses.values()
        )
        parts = those_that_answer(addresses, answers, absent).values()
        queues = {queue: each for part in parts for queue, each in part.queues.items()}
        rate = sum(part.put_rate for part in parts)
        return TopicState(
            dict(sorted(queues.items())), rate, route.queues, tuple(absent.values())
        )

    async def topic_bounds(
        self, topic: str, missing: Sequence[AbsentBroker] | None = None
    ) -> TopicState:
        """Return the offsets of a topic's readable queues at brokers that answer; raise TopicNotFound if it seems not to exist."""
        if missing is None:
            missing = await self.missing()
        absent = {each.name: each for each in missing if each.has_any([topic])}
        try:
            known = await self._instance.known(topic)
            queues, routed = known.read_queues, known.route.queues
        except TopicNotFound:
            if not absent:
                raise
            queues, routed = (), ()
        bounds = dict(sorted((await self._offsets.bounds(queues)).items()))
        held = queues_that_answer(bounds, bounds.values(), absent)
        found = {queue: QueueBounds(each.first, each.end) for queue, each in held.items()}
        return TopicState(found, routed=routed, absent=tuple(absent.values()))

    async def groups_of_topic(self, topic: str) -> list[str]:
        """Return the groups with offsets in a topic or members that subscribe to it; raise TopicNotFound without a route."""
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

    async def groups(self, brokers: Mapping[str, str] | None = None) -> list[GroupState]:
        """Return the state of each consumer group that a queried broker has, sorted by name, with lag and members.

        Args:
            brokers: Addresses of the brokers to query, by broker name; None: of each registered group the master or a slave.
        """
        return await self._groups(await self._asked_brokers(brokers), None)

    async def group(self, group: str) -> GroupState:
        """Return the state of one consumer group; its `is_known` is False if no broker that answers knows the group."""
        return await self._group(await self._asked_brokers(None), group)

    async def some_groups(self, groups: Collection[str]) -> list[GroupState | CometError]:
        """Return the state of some groups, as of `group`, or why it is unknown, in their order.

        What a broker tells of all groups is queried once; raises the error if that is impossible.
        """
        asked = await self._asked_brokers(None)
        return await side_by_side(lambda group: self._group(asked, group), groups)

    async def _group(self, asked: _AskedBrokers, group: str) -> GroupState:
        [state] = await self._groups(asked, group)
        return state

    async def _asked_brokers(self, addresses: Mapping[str, str] | None) -> _AskedBrokers:
        absent = {each.name: each for each in await self.missing()}
        if addresses is None:
            api = self._instance.nameserver_api
            addresses = await api.readable_brokers()
            if not addresses and not absent:
                addresses = await api.masters()  # Raises an error that no broker is registered.
        answers = await side_by_side(self._api.groups, addresses.values())
        configs = those_that_answer(addresses, answers, absent)
        return _AskedBrokers(addresses, configs, absent)

    async def _groups(self, asked: _AskedBrokers, only: str | None) -> list[GroupState]:
        addresses, configs, absent = asked.addresses, asked.configs, dict(asked.absent)
        stats = await self._stats({name: addresses[name] for name in configs}, only, absent)
        names = {only} if only else {*chain(*configs.values(), *stats.values())}
        pairs = [(broker, name) for name in sorted(names) for broker in stats]
        members = await side_by_side(
            lambda pair: self._api.consumer_connections(addresses[pair[0]], pair[1]), pairs
        )
        there: dict[str, list[ConsumerConnections]] = {}
        for (broker, name), answer in zip(pairs, members, strict=True):
            if isinstance(answer, NetError):
                absent[broker] = silent_broker(broker, answer)
            elif isinstance(answer, CometError):
                raise answer
            elif answer is not None:
                there.setdefault(name, []).append(answer)
        states = [
            _group_state(
                name,
                {broker: part[name] for broker, part in configs.items() if name in part},
                [topic for part in stats.values() for topic in part.get(name, ())],
                there.get(name, ()),
            )
            for name in sorted(names)
        ]
        if absent:
            states = [
                replace(each, absent=_absent_of(each, absent.values())) for each in states
            ]
        return await self._uncounted(states, set(stats))

    async def _stats(
        self, addresses: Mapping[str, str], only: str | None, absent: dict[str, AbsentBroker]
    ) -> dict[str, dict[str, tuple[ConsumeStats, ...]]]:

        async def ask(address: str) -> dict[str, tuple[ConsumeStats, ...]]:
            if only is None:
                return await self._api.all_consume_stats(address)
            return {only: (await self._api.consume_stats(address, only, None),)}

        return those_that_answer(addresses, await side_by_side(ask, addresses.values()), absent)

    async def producers(self) -> ClusterProducers:
        """Return the members of producer groups at all masters; raises the error of one if none answers, or of one that refuses."""
        absent = {each.name: each for each in await self.missing()}
        masters = await self._instance.nameserver_api.masters()
        answers = await side_by_side(self._api.all_producers, masters.values())
        found: dict[tuple[str, str], ProducerState] = {}
        for broker, groups in sorted(those_that_answer(masters, answers, absent).items()):
            for group, members in groups.items():
                for client, seen_ms in members:
                    key = group, client.client_id
                    known = found.get(key, ProducerState(group, client, (), 0))
                    found[key] = known._replace(
                        brokers=(*known.brokers, broker), seen_ms=max(known.seen_ms, seen_ms)
                    )
        return ClusterProducers(
            tuple(found[key] for key in sorted(found)), tuple(absent.values())
        )

    async def running(self, group: str, client_id: str, *, stacks: bool) -> RunningState:
        """Return the state that a member of a group reports, through the first master that can query the member.

        Raises BrokerRefused if a master refuses, for example because it does not know the member or the member is silent,
        NetError if no master answers in time, and BrokerNotFound if none is registered.
        """
        masters = await self._instance.nameserver_api.masters()
        failure: CometError | None = None
        for address in masters.values():
            try:
                return await self._api.running_state(address, group, client_id, stacks=stacks)
            except BrokerRefused as refused:
                failure = refused
            except NetError as silent:
                failure = failure or silent
        assert failure is not None, "there is always one master"
        raise failure

    async def _uncounted(
        self, groups: list[GroupState], brokers: Collection[str]
    ) -> list[GroupState]:
        """Return the groups, with those queues of their topics added that `brokers` left out, as `_with_queues` does.

        Broadcasting groups are returned unchanged, and queues of retry topics are not added.
        """
        topics = {
            each.name: [] if each.model == BROADCASTING else _left_out(each, brokers)
            for each in groups
        }
        wanted = sorted({*chain(*topics.values())})
        routes: dict[str, Sequence[MessageQueue]] = {}
        for topic, known in zip(
            wanted, await side_by_side(self._instance.known, wanted), strict=True
        ):
            if not isinstance(known, CometError):
                routes[topic] = known.read_queues
            elif not isinstance(known, TopicNotFound):  # No message was sent to the topic yet.
                raise known
        lacking = {
            group.name: [
                queue
                for topic in topics[group.name]
                for queue in routes.get(topic, ())
                if queue.broker_name in brokers and queue not in group.progress
            ]
            for group in groups
        }
        queues = {*chain(*lacking.values())}
        bounds = await self._offsets.bounds(queues) if queues else {}
        filled = [
            queue
            for queue, each in bounds.items()
            if not isinstance(each, CometError) and each.end > each.first
        ]
        times = await self._offsets.first_stored_times(filled) if filled else {}
        return [
            await self._with_queues(group, lacking[group.name], bounds, times)
            if lacking[group.name]
            else group
            for group in groups
        ]

    async def _with_queues(
        self,
        group: GroupState,
        queues: Sequence[MessageQueue],
        bounds: Mapping[MessageQueue, OffsetBounds | CometError],
        times: Mapping[MessageQueue, int | CometError],
    ) -> GroupState:
        """Return the group with the given queues, which have no committed offset, added to its progress.

        Without members, the lag in such a queue includes all of its messages. With members, which may have begun at its
        end, it counts from the offset that the broker returns for the group. A queue that has messages but no such
        offset, or whose offsets cannot be read, is left out, and `uncounted` gives the number of these. `times` are the
        store times of the first messages of the queues that have any.
        """
        starts: Mapping[MessageQueue, int | CometError | None] = dict.fromkeys(queues, 0)
        if group.members:
            starts = await self._offsets.committed_offsets(group.name, queues)
        progress, unknown = dict(group.progress), 0
        for queue in queues:
            ends, start = bounds[queue], starts[queue]
            if (
                isinstance(ends, CometError)
                or isinstance(start, CometError)
                or (start is None and ends.end > ends.first)
            ):
                unknown += 1
            else:
                offset, first_ms = max(start or 0, ends.first), times.get(queue)
                if offset > ends.first or not isinstance(first_ms, int):
                    first_ms = 0  # That is the time of another message, or none.
                progress[queue] = QueueProgress(
                    ends.end, offset, offset, is_committed=False, oldest_ms=max(first_ms, 0)
                )
        reason = f"no member reports where the group began in {unknown} {plural(unknown, 'queue')} without an offset"
        return replace(
            group,
            progress=dict(sorted(progress.items())),
            uncounted=(reason,) if unknown else (),
        )


def _away(
    registered: Mapping[str, BrokerData], missing: Iterable[AbsentBroker]
) -> list[BrokerState]:
    """Return the state of each known master that is not registered, with the reason as its error.

    Args:
        registered: Registered broker groups by name; those that only have slaves lack their master.
        missing: Brokers that have left their nameserver; those whose group is registered are ignored.
    """
    found = [
        BrokerState(
            each.cluster, each.name, MASTER_ID, "", None, {}, f"it {each.why}", each.left_ms
        )
        for each in missing
        if each.name not in registered
    ]
    for name, broker in registered.items():
        if MASTER_ID not in broker.addresses:
            why = "it is not registered, only its slaves are: it accepts no messages"
            found.append(BrokerState(broker.cluster, name, MASTER_ID, "", None, {}, why))
    return found


def _left_out(group: GroupState, brokers: Collection[str]) -> list[str]:
    said = {(queue.topic, queue.broker_name) for queue in group.progress}
    return [
        topic
        for topic in {*group.subscriptions, *(topic for topic, _ in said)}
        if not (is_retry_topic(topic) or all((topic, name) in said for name in brokers))
    ]


def _absent_of(group: GroupState, absent: Iterable[AbsentBroker]) -> tuple[AbsentBroker, ...]:
    """Return the absent brokers that may have messages of a group: all if it has no members to tell its topics."""
    topics = {*group.topics, retry_topic(group.name)}
    return tuple(each for each in absent if not group.members or each.has_any(topics))


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
        {
            queue: part.queues[queue]
            for part in stats
            for queue in sorted(part.queues, key=_IN_ORDER)
        },
        sum((part.rate for part in stats), 0.0),
        tuple(members[key] for key in sorted(members)),
        {topic: each for part in parts for topic, each in sorted(part.subscriptions.items())},
        parts[0].consume_type if parts else None,
        parts[0].model if parts else None,
    )
