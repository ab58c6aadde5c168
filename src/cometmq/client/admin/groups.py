"""Consumer groups, as `AsyncAdmin.groups`: settings, members and lag; also the connected members of producer groups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from cometmq.client.admin.absent import (
    AbsentBroker,
    missing_brokers,
    silent_broker,
    those_that_answer,
)
from cometmq.client.admin.noun import AsyncNoun, Value
from cometmq.client.admin.states import (
    ClusterProducers,
    GroupState,
    ProducerState,
    group_not_found,
)
from cometmq.client.api.asking import all_of, side_by_side
from cometmq.codec.bodies.conflicts import Conflict
from cometmq.codec.bodies.connection import ClientConnection, ConsumerConnections
from cometmq.codec.bodies.heartbeat import BROADCASTING
from cometmq.codec.bodies.running import RunningState
from cometmq.codec.bodies.stats import ConsumeStats, QueueBounds, QueueProgress
from cometmq.model.errors import (
    BrokerRefused,
    CodecError,
    CometError,
    GroupNotFound,
    NetError,
    TopicNotFound,
)
from cometmq.model.group import GroupConfig
from cometmq.model.names import check_group, is_retry_topic, retry_topic
from cometmq.model.queue import MessageQueue
from cometmq.model.text import in_quotes, plural

# The order of queues, without a call of their own comparison for each pair.
_IN_ORDER = attrgetter("topic", "broker_name", "queue_id")


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


class AsyncGroupAdmin(AsyncNoun):
    """The methods that list, show, create, change and delete consumer groups of a cluster; a group has its own settings at each broker."""

    _noun = "groups"

    async def show(self, group: str) -> GroupState:
        """Return one consumer group, with members and lag by queue; raise GroupNotFound if no broker that answers knows it."""
        return await self._one(await self._asked(None), group)

    async def some(self, groups: Sequence[str]) -> list[GroupState | CometError]:
        """Return the state of some consumer groups, in their order, or the error that `show` would raise for one.

        It takes fewer requests than `show` for each, and fewer bytes than `list`. Raises the error of the nameserver,
        or of a broker that refuses to list its groups.
        """
        asked = await self._asked(None)
        return await side_by_side(lambda group: self._one(asked, group), groups)

    async def _one(self, asked: _AskedBrokers, group: str) -> GroupState:
        [state] = await self._states(asked, self._full(group))
        if not state.is_known:
            raise group_not_found(group, state.absent)
        return self._short_group(state)

    async def configs(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> dict[str, GroupConfig]:
        """Return all consumer groups of the namespace by name; if masters differ, with the settings of the last one.

        Args:
            cluster: Only at the masters of this cluster; None: at all masters.
            broker: Only at this master.

        Raises:
            BrokerNotFound: No such master is registered.
        """
        found: dict[str, GroupConfig] = {}
        answers = await self._each_master(self._brokers.groups, cluster, broker)
        for groups in answers.values():
            found.update(groups)
        return {
            name: replace(found[self._namespace.wrap(name)], name=name)
            for name in self._own(found)
        }

    async def connections(self, group: str) -> dict[str, ConsumerConnections]:
        """Return the members of a consumer group that are connected to each master, by broker name.

        Masters without a member are left out. Raises BrokerNotFound if no master is registered.
        """
        group = self._full(group)
        seen = await self._each_master(
            lambda address: self._brokers.consumer_connections(address, group), None
        )
        return {
            name: replace(
                members, subscriptions=self._short_subscriptions(members.subscriptions)
            )
            for name, members in seen.items()
            if members is not None
        }

    async def producers(self) -> ClusterProducers:
        """Return the connected members of all producer groups; requires an administrator's rights.

        Raises BrokerNotFound if no master is registered, NetError if none answers, and BrokerRefused if one refuses.
        """
        absent = {each.name: each for each in await missing_brokers(self._live)}
        masters = await self._live.nameserver_api.masters()
        answers = await side_by_side(self._brokers.all_producers, masters.values())
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

    async def producer_connections(self, group: str) -> dict[str, tuple[ClientConnection, ...]]:
        """Return the members of a producer group that are connected to each master, by broker name.

        Masters without a member are left out. Raises BrokerNotFound if no master is registered.
        """
        group = self._full(group)
        seen = await self._each_master(
            lambda address: self._brokers.producer_connections(address, group), None
        )
        return {name: members for name, members in seen.items() if members}

    async def running(
        self, group: str, client_id: str, *, stacks: bool = False
    ) -> RunningState:
        """Return the state that a member of a group reports; with `stacks`, also the stacks of its threads.

        The masters are asked in turn until one returns it. If none does, raises BrokerRefused if a master refuses, for
        example because it does not know the member or the member is silent, and NetError if no master answers.
        """
        group = self._full(group)
        masters = await self._live.nameserver_api.masters()
        failure: CometError | None = None
        for address in masters.values():
            try:
                return await self._brokers.running_state(
                    address, group, client_id, stacks=stacks
                )
            except BrokerRefused as refused:
                failure = refused
            except NetError as silent:
                failure = failure or silent
        assert failure is not None, "there is always one master"
        raise failure

    async def conflicts(self, group: str | None = None) -> list[Conflict]:
        """Return conflicts between a group's members: different subscriptions or message models, or a shared client id.

        Java brokers refuse this request (BrokerRefused).

        Args:
            group: The consumer group; None: all groups.
        """
        full = group and self._full(group)
        found = await self._each_broker(lambda address: self._brokers.conflicts(address, full))
        return list(dict.fromkeys(chain.from_iterable(found)))

    async def locks(self, group: str | None = None) -> dict[tuple[str, MessageQueue], str]:
        """Return the client ids that hold queue locks, by group and queue; raise BrokerRefused for a Java broker."""
        full = group and self._full(group)
        found = await self._each_broker(
            lambda address: self._brokers.queue_locks(address, full)
        )
        return {place: holder for locks in found for place, holder in locks.items()}

    async def _each_broker(self, ask: Callable[[str], Awaitable[Value]]) -> list[Value]:
        """Return the answer of the master or else a slave of each registered broker group; raise the error of any."""
        addresses = (await self._live.nameserver_api.readable_brokers()).values()
        return all_of(await side_by_side(ask, addresses))

    async def create(
        self, group: GroupConfig, *, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """Create a consumer group, or change its settings, at every master of the cluster, or of all clusters.

        Args:
            group: The name and settings of the group.
            cluster: Only at the masters of this cluster; None: at all masters.
            broker: Only at this master.

        Raises:
            RequestError: The name is invalid.
            BrokerNotFound: No such master is registered.
        """
        check_group(group.name)
        group = replace(group, name=self._full(group.name))
        await self._each_master(
            lambda address: self._brokers.create_group(address, group), cluster, broker
        )

    async def delete(
        self, group: str, *, delete_offsets: bool = True, cluster: str | None = None
    ) -> None:
        """Delete a consumer group at every master, or at those of `cluster`; unless `delete_offsets` is False, also its offsets.

        With the offsets, CometMQ's brokers delete the group's own retry topics.
        Raises BrokerNotFound if no master is registered.
        """
        group = self._full(group)
        await self._each_master(
            lambda address: self._brokers.delete_group(address, group, offsets=delete_offsets),
            cluster,
        )

    # --- states

    async def _asked(self, addresses: Mapping[str, str] | None) -> _AskedBrokers:
        absent = {each.name: each for each in await missing_brokers(self._live)}
        if addresses is None:
            api = self._live.nameserver_api
            addresses = await api.readable_brokers()
            if not addresses and not absent:
                addresses = await api.masters()  # Raises an error that no broker is registered.
        answers = await side_by_side(self._brokers.groups, addresses.values())
        configs = those_that_answer(addresses, answers, absent)
        return _AskedBrokers(addresses, configs, absent)

    async def _states(self, asked: _AskedBrokers, only: str | None) -> list[GroupState]:
        addresses, configs, absent = asked.addresses, asked.configs, dict(asked.absent)
        stats = await self._stats({name: addresses[name] for name in configs}, only, absent)
        names = {only} if only else {*chain(*configs.values(), *stats.values())}
        pairs = [(broker, name) for name in sorted(names) for broker in stats]
        members = await side_by_side(
            lambda pair: self._brokers.consumer_connections(addresses[pair[0]], pair[1]), pairs
        )
        there: dict[str, list[ConsumerConnections]] = {}
        unread: dict[str, list[str]] = {}
        for (broker, name), answer in zip(pairs, members, strict=True):
            if isinstance(answer, NetError):
                absent[broker] = silent_broker(broker, answer)
            elif isinstance(answer, BrokerRefused | CodecError) and only is None:
                short = in_quotes(self._namespace.unwrap(name))
                unread.setdefault(name, []).append(
                    f"{broker} does not show the members of group {short}: {answer}"
                )
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
                tuple(unread.get(name, ())),
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
                return await self._brokers.all_consume_stats(address)
            return {only: (await self._brokers.consume_stats(address, only, None),)}

        return those_that_answer(addresses, await side_by_side(ask, addresses.values()), absent)

    async def _uncounted(
        self, groups: list[GroupState], brokers: Collection[str]
    ) -> list[GroupState]:
        """Return the groups, with those queues of their topics added that `brokers` left out, as `_with_queues` does.

        Broadcasting groups and those with unknown members are returned unchanged, and queues of retry topics are not added.
        """
        topics = {each.name: _left_out(each, brokers) for each in groups}
        wanted = sorted({*chain(*topics.values())})
        routes: dict[str, Sequence[MessageQueue]] = {}
        for topic, known in zip(
            wanted, await side_by_side(self._live.known, wanted), strict=True
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
            if not isinstance(each, CometError) and each.message_count
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
        bounds: Mapping[MessageQueue, QueueBounds | CometError],
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
                or (start is None and ends.message_count)
            ):
                unknown += 1
            else:
                offset, first_ms = max(start or 0, ends.min_offset), times.get(queue)
                if offset > ends.min_offset or not isinstance(first_ms, int):
                    first_ms = 0  # That is the time of another message, or none.
                progress[queue] = QueueProgress(
                    ends.max_offset,
                    offset,
                    offset,
                    is_committed=False,
                    oldest_ms=max(first_ms, 0),
                )
        reason = f"no member reports where the group began in {unknown} {plural(unknown, 'queue')} without an offset"
        return replace(
            group,
            progress=dict(sorted(progress.items())),
            uncounted=(reason,) if unknown else (),
        )

    # --- Methods named like types stand last: in annotations behind them, these names would mean the methods.

    async def set(
        self,
        group: str,
        changes: Mapping[str, Any],
        *,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> dict[str, GroupConfig]:
        """Change fields of `GroupConfig`, except the name, at each master that has a group; return the results by broker name.

        Args:
            group: Name of the group.
            changes: New values by field.
            cluster: Only at the masters of this cluster; None: at all masters.
            broker: Only at this master.

        Raises:
            BrokerNotFound: No such master is registered.
            GroupNotFound: None of them has the group.
            SettingsError: `changes` has the name or an unknown field.
        """
        name, group = group, self._full(group)
        changed = await self._each_master(
            lambda address: self._brokers.change_group(address, group, changes), cluster, broker
        )
        if not any(changed.values()):
            raise GroupNotFound(
                f"no broker has the settings of group {in_quotes(name)}; create it with cometmq group create or "
                "Admin.groups.create"
            )
        return self._short_configs(changed)

    async def list(self, brokers: Mapping[str, str] | None = None) -> list[GroupState]:
        """Return the consumer groups of the namespace that the brokers know, with lag and members, sorted by name.

        A group whose members a broker does not show, for example because the user may not read it, has the reason in `unread`.

        Args:
            brokers: Addresses of the brokers to query, by broker name; None: of each registered group the master or a slave.
        """
        states = await self._states(await self._asked(brokers), None)
        own = self._own(state.name for state in states)
        return [state for state in map(self._short_group, states) if state.name in own]


def _left_out(group: GroupState, brokers: Collection[str]) -> list[str]:
    if group.model == BROADCASTING or group.unread:
        return []
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
    unread: tuple[str, ...],
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
        unread=unread,
    )
