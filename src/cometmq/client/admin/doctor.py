"""Examination of a whole cluster: queries every registered broker and reports the problems that it can detect.

A queue without a reader may be moving between members, so unread queues are checked twice.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from cometmq.client.admin.copies import ask_replicas, settled_replicas
from cometmq.client.admin.states import BrokerState, GroupState, States
from cometmq.client.admin.symptoms import ClusterFacts, Symptom, symptoms_of
from cometmq.client.api.asking import side_by_side
from cometmq.client.api.broker import BrokerApi
from cometmq.client.api.unsigned import unsigned_answers
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.results import Replica
from cometmq.codec.bodies.cluster import ClusterInfo
from cometmq.codec.bodies.conflicts import Conflict
from cometmq.codec.bodies.heartbeat import CLUSTERING
from cometmq.codec.bodies.missing_brokers import MissingBroker
from cometmq.codec.bodies.running import RunningState
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import BrokerRefused, CometError
from cometmq.model.names import is_retry_topic, is_system_group
from cometmq.model.queue import MessageQueue
from cometmq.model.route import MASTER_ID, BrokerData

_LOOK_AGAIN_SECONDS = 2.0
_MEMBERS_ASKED_MAX = 64  # In larger groups, the queues of members are not checked.
_ANY_QUEUE = -1  # The entry of a member that pops from all queues of a broker.


class Doctor:
    """Examines a cluster for one client."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self._api = BrokerApi(instance)
        self._states = States(instance)

    async def look(self, lag_max: int) -> list[Symptom]:
        """Examine the cluster and return the problems found; a group with members may lag by up to `lag_max` messages."""
        nameservers = await self._instance.nameserver_api.each_cluster()
        clusters = {
            address: answer
            for address, answer in nameservers.items()
            if isinstance(answer, ClusterInfo)
        }
        if not clusters:
            return symptoms_of(ClusterFacts(nameservers))
        # From now on, query the nameserver that knows the most brokers.
        best = max(clusters, key=lambda address: len(clusters[address].brokers))
        self._instance.nameserver_api.turn_to(best)
        brokers = await self._states.brokers(_registered(clusters.values()))
        there = [each for each in brokers if each.error is None]
        masters = {
            each.broker_name: each.address for each in there if each.broker_id == MASTER_ID
        }
        unknown: list[tuple[str, str]] = []
        # A slave without its master also knows the offsets of groups.
        readable = {each.broker_name: each.address for each in reversed(there)}
        groups = await self._groups(readable, unknown)
        return symptoms_of(
            ClusterFacts(
                nameservers,
                brokers,
                {each.address: each.answered_ms for each in there},
                await self._replicas(),
                await self._missing(),
                groups,
                await self._conflicts(masters, unknown),
                await self._unread(groups),
                unknown,
                lag_max,
                *await self._unsigned(clusters, there),
            )
        )

    async def _unsigned(
        self, nameservers: Iterable[str], there: Sequence[BrokerState]
    ) -> tuple[list[str], list[str]]:
        instance, brokers = self._instance, [each.address for each in there]
        return await unsigned_answers(instance.clock, instance.settings, nameservers, brokers)

    async def _groups(
        self, brokers: Mapping[str, str], unknown: list[tuple[str, str]]
    ) -> list[GroupState]:
        try:
            return await self._states.groups(brokers) if brokers else []
        except CometError as error:
            unknown.append(("groups", f"the consumer groups cannot be read: {error}"))
            return []

    async def _replicas(self) -> list[Replica]:
        try:
            return await settled_replicas(lambda: ask_replicas(self._instance))
        except CometError:  # The nameserver has become unreachable.
            return []

    async def _missing(self) -> tuple[MissingBroker, ...]:
        try:
            return await self._instance.nameserver_api.missing_brokers()
        except CometError:  # RocketMQ's own nameserver.
            return ()

    async def _conflicts(
        self, masters: Mapping[str, str], unknown: list[tuple[str, str]]
    ) -> list[Conflict]:
        found: dict[Conflict, None] = {}
        said = await side_by_side(
            lambda address: self._api.conflicts(address, None), masters.values()
        )
        for name, answer in zip(masters, said, strict=True):
            if not isinstance(answer, CometError):
                found.update(dict.fromkeys(answer))
            elif not _is_java(answer):
                unknown.append((name, f"it cannot compare subscriptions of members: {answer}"))
        return list(found)

    # --- queues without a reader

    async def _unread(self, groups: Sequence[GroupState]) -> dict[str, list[MessageQueue]]:
        first = await self._unread_now(groups)
        if not first:
            return {}
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        again = [await self._states.group(name) for name in first]
        second = await self._unread_now(again)
        return {
            name: both
            for name, queues in second.items()
            if (both := sorted(set(queues).intersection(first[name])))
        }

    async def _unread_now(self, groups: Sequence[GroupState]) -> dict[str, list[MessageQueue]]:
        found = {}
        for group in groups:
            is_shared = group.model == CLUSTERING and not is_system_group(group.name)
            if is_shared and 0 < len(group.members) <= _MEMBERS_ASKED_MAX:
                held = await self._held(group)
                lacking = [] if held is None else await self._lacking(group, held)
                if lacking:
                    found[group.name] = lacking
        return found

    async def _held(self, group: GroupState) -> set[MessageQueue] | None:
        """Return the queues that the members of a group pull or pop; None if a member cannot be queried."""
        said = await side_by_side(
            lambda member: self._states.running(group.name, member.client_id, stacks=False),
            group.members,
        )
        states = [each for each in said if isinstance(each, RunningState)]
        if len(states) < len(said):
            return None
        return {queue for state in states for queue in (*state.queues, *state.pops)}

    async def _lacking(self, group: GroupState, held: set[MessageQueue]) -> list[MessageQueue]:
        lacking = []
        for topic in group.subscriptions:
            if is_retry_topic(topic):
                continue
            try:
                queues = (await self._instance.fresh(topic)).read_queues
            except CometError:  # No message was sent to the topic yet.
                continue
            lacking += [
                queue
                for queue in queues
                if queue not in held
                and MessageQueue(topic, queue.broker_name, _ANY_QUEUE) not in held
            ]
        return lacking


def _registered(clusters: Iterable[ClusterInfo]) -> dict[str, BrokerData]:
    """Return each broker group by name, with the members that any of the nameservers' answers has."""
    found: dict[str, BrokerData] = {}
    for cluster in clusters:
        for name, broker in cluster.brokers.items():
            one = found.get(name, broker)
            found[name] = replace(one, addresses={**broker.addresses, **one.addresses})
    return found


def _is_java(error: CometError) -> bool:
    return (
        isinstance(error, BrokerRefused)
        and error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    )
