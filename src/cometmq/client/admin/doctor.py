"""Examination of a whole cluster: queries every registered broker and reports the problems that it can detect.

A queue without a reader may be moving between members, and a member that consumes nothing may have just begun. So both
are checked twice.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from cometmq.client.admin.brokers import AsyncBrokerAdmin
from cometmq.client.admin.copies import settled_replicas
from cometmq.client.admin.dead_letters import AsyncDeadLetterAdmin
from cometmq.client.admin.facts import ClusterFacts, StuckMember, Symptom
from cometmq.client.admin.group_symptoms import stuck_members
from cometmq.client.admin.groups import AsyncGroupAdmin
from cometmq.client.admin.letters import DeadLetterCount
from cometmq.client.admin.states import BrokerState, GroupState
from cometmq.client.admin.symptoms import symptoms_of
from cometmq.client.api.asking import side_by_side
from cometmq.client.api.broker import BrokerApi
from cometmq.client.api.unsigned import unsigned_answers
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.lifecycle import AsyncClient
from cometmq.client.results import Replica
from cometmq.client.settings import environment_tls
from cometmq.codec.bodies.cluster import ClusterInfo
from cometmq.codec.bodies.conflicts import Conflict
from cometmq.codec.bodies.heartbeat import CLUSTERING
from cometmq.codec.bodies.missing_brokers import MissingBroker
from cometmq.codec.bodies.running import RunningState
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import BrokerRefused, CometError
from cometmq.model.names import (
    REPLY_TOPIC_SUFFIX,
    is_derived_topic,
    is_retry_topic,
    is_system_group,
    is_system_topic,
)
from cometmq.model.namespace import NO_NAMESPACE
from cometmq.model.queue import MessageQueue
from cometmq.model.route import MASTER_ID, BrokerData
from cometmq.net.tls import served_certificate_end

_LOOK_AGAIN_SECONDS = 2.0
_CERTIFICATE_SECONDS = 5.0
_MEMBERS_ASKED_MAX = 64  # In larger groups, members are not queried.
_ANY_QUEUE = -1  # The entry of a member that pops from all queues of a broker.

Unread = dict[str, list[MessageQueue]]
Stuck = dict[str, list[StuckMember]]


class Doctor:
    """Examines a cluster through the connections of one client; names are as brokers know them, with any namespace."""

    def __init__(self, admin: AsyncClient, instance: ClientInstance) -> None:
        self._instance = instance
        self._api = BrokerApi(instance)
        self._brokers = AsyncBrokerAdmin(admin)
        self._known_groups = AsyncGroupAdmin(admin, NO_NAMESPACE)
        self._dead_letters = AsyncDeadLetterAdmin(admin, NO_NAMESPACE)
        self._unknown: list[tuple[str, str]] = []

    async def look(self, lag_max: int, wait_ms: int) -> list[Symptom]:
        """Examine the cluster and return the problems found.

        Args:
            lag_max: Largest acceptable lag of a group with members, messages.
            wait_ms: Time that a message may wait for a member, for its acknowledgement or its transaction's end, ms.
        """
        self._unknown = []
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
        facts = ClusterFacts(nameservers, lag_max=lag_max, wait_ms=wait_ms)
        return symptoms_of(await self._with_brokers(facts, clusters))

    async def _with_brokers(
        self, facts: ClusterFacts, clusters: Mapping[str, ClusterInfo]
    ) -> ClusterFacts:
        """Return the facts, with what the brokers of `clusters` (by address of the nameserver) report."""
        brokers = await self._brokers.list(_registered(clusters.values()))
        there = [each for each in brokers if each.error is None]
        masters = {
            each.broker_name: each.address for each in there if each.broker_id == MASTER_ID
        }
        # A slave without its master also knows the offsets of groups.
        groups = await self._groups(
            {each.broker_name: each.address for each in reversed(there)}
        )
        unread, stuck = await self._twice(groups, facts.wait_ms)
        settings = await self._settings(there)
        open_nameservers, guarded_brokers = await self._unsigned(clusters, there)
        return replace(
            facts,
            brokers=brokers,
            now_ms=self._instance.clock.now_ms(),
            asked_ms={each.address: each.answered_ms for each in there},
            replicas=await self._replicas(),
            missing=await self._missing(),
            groups=groups,
            conflicts=await self._conflicts(masters),
            unread=unread,
            stuck=stuck,
            letters=await self._letters(),
            perms=await self._perms(masters, brokers),
            settings=settings,
            certificates=await self._certificates(clusters, settings),
            unknown=self._unknown,
            open_nameservers=open_nameservers,
            guarded_brokers=guarded_brokers,
        )

    async def _unsigned(
        self, nameservers: Iterable[str], there: Sequence[BrokerState]
    ) -> tuple[list[str], list[str]]:
        instance, brokers = self._instance, [each.address for each in there]
        return await unsigned_answers(instance.clock, instance.settings, nameservers, brokers)

    async def _groups(self, brokers: Mapping[str, str]) -> list[GroupState]:
        try:
            groups = await self._known_groups.list(brokers) if brokers else []
        except CometError as error:
            self._unknown.append(("groups", f"the consumer groups cannot be read: {error}"))
            return []
        self._unknown += [("groups", reason) for each in groups for reason in each.unread]
        return groups

    async def _settings(self, brokers: Sequence[BrokerState]) -> dict[str, Mapping[str, str]]:
        """Return the settings of brokers by address; empty for one whose query fails, as only some checks need them."""
        addresses = [each.address for each in brokers]
        said = await side_by_side(self._api.settings, addresses)
        return {
            address: {} if isinstance(answer, CometError) else answer.values
            for address, answer in zip(addresses, said, strict=True)
        }

    async def _certificates(
        self, nameservers: Iterable[str], brokers: Mapping[str, Mapping[str, str]]
    ) -> dict[str, int]:
        """Return when the certificates of servers expire or expired, ms since 1970, by address.

        A server that takes cleartext only would see a handshake as a broken request. So only those are asked that use TLS:
        all of them if this client does, otherwise brokers whose settings (`brokers`, by address) name a certificate.
        """
        is_own = (self._instance.settings.tls or environment_tls()) is not None
        asked = [*nameservers] if is_own else []
        asked += [each for each, values in brokers.items() if is_own or _uses_tls(values)]
        ends = await side_by_side(
            lambda address: served_certificate_end(address, seconds=_CERTIFICATE_SECONDS), asked
        )
        pairs = zip(asked, ends, strict=True)
        return {address: end for address, end in pairs if isinstance(end, int)}

    async def _replicas(self) -> list[Replica]:
        try:
            return await settled_replicas(self._brokers.replicas)
        except CometError:  # The nameserver has become unreachable.
            return []

    async def _missing(self) -> tuple[MissingBroker, ...]:
        try:
            return await self._instance.nameserver_api.missing_brokers()
        except CometError:  # RocketMQ's own nameserver.
            return ()

    async def _conflicts(self, masters: Mapping[str, str]) -> list[Conflict]:
        found: dict[Conflict, None] = {}
        said = await side_by_side(
            lambda address: self._api.conflicts(address, None), masters.values()
        )
        for name, answer in zip(masters, said, strict=True):
            if not isinstance(answer, CometError):
                found.update(dict.fromkeys(answer))
            elif not _is_java(answer):
                self._unknown.append(
                    (name, f"it cannot compare subscriptions of members: {answer}")
                )
        return list(found)

    async def _letters(self) -> list[DeadLetterCount]:
        try:
            counts = await self._dead_letters.waiting()
        except CometError as error:
            self._unknown.append(("dead letters", f"they cannot be counted: {error}"))
            return []
        for each in counts:
            self._unknown += [("dead letters", reason) for reason in each.uncounted]
        return [each for each in counts if each.letters]

    async def _perms(
        self, masters: Mapping[str, str], brokers: Sequence[BrokerState]
    ) -> dict[str, dict[str, int]]:
        """Return the permission bits of each topic of users, by topic and by name of each master that answers."""
        clusters = {each.cluster for each in brokers}
        own = {*clusters, *(each.broker_name for each in brokers)}
        own |= {f"{cluster}_{REPLY_TOPIC_SUFFIX}" for cluster in clusters}
        perms: dict[str, dict[str, int]] = {}
        said = await side_by_side(self._api.topics, masters.values())
        for name, answer in zip(masters, said, strict=True):
            if isinstance(answer, CometError):
                self._unknown.append((name, f"its topics cannot be read: {answer}"))
                continue
            for topic, config in answer.items():
                if not (topic in own or is_system_topic(topic) or is_derived_topic(topic)):
                    perms.setdefault(topic, {})[name] = config.perm
        return perms

    # --- members

    async def _twice(self, groups: Sequence[GroupState], wait_ms: int) -> tuple[Unread, Stuck]:
        """Return the queues without a reader and the stuck members of groups, as far as 2 s later they are still found."""
        unread, stuck = await self._members_now(groups, wait_ms)
        if not (unread or stuck):
            return {}, {}
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        again = await side_by_side(self._known_groups.show, sorted({*unread, *stuck}))
        unread_again, stuck_again = await self._members_now(
            [each for each in again if isinstance(each, GroupState)], wait_ms
        )
        both = {
            name: sorted(set(queues).intersection(unread.get(name, ())))
            for name, queues in unread_again.items()
        }
        before = {name: {each.client_id for each in part} for name, part in stuck.items()}
        still = {
            name: [each for each in part if each.client_id in before.get(name, ())]
            for name, part in stuck_again.items()
        }
        return {name: each for name, each in both.items() if each}, {
            name: each for name, each in still.items() if each
        }

    async def _members_now(
        self, groups: Sequence[GroupState], wait_ms: int
    ) -> tuple[Unread, Stuck]:
        shared = [
            each
            for each in groups
            if each.model == CLUSTERING
            and not is_system_group(each.name)
            and 0 < len(each.members) <= _MEMBERS_ASKED_MAX
        ]
        running = await self._running(shared)
        before_ms = self._instance.clock.now_ms() - wait_ms
        stuck = {
            each.name: stuck_members(each, running[each.name], before_ms) for each in shared
        }
        complete = [each for each in shared if len(running[each.name]) == len(each.members)]
        unread = await self._unread(complete, running)
        return unread, {name: each for name, each in stuck.items() if each}

    async def _running(
        self, groups: Sequence[GroupState]
    ) -> dict[str, dict[str, RunningState]]:
        """Return the states that the members of groups report, by group and client id, without silent members."""
        asked = [(group.name, each.client_id) for group in groups for each in group.members]
        said = await side_by_side(lambda pair: self._known_groups.running(*pair), asked)
        found: dict[str, dict[str, RunningState]] = {each.name: {} for each in groups}
        for (name, client_id), answer in zip(asked, said, strict=True):
            if isinstance(answer, RunningState):
                found[name][client_id] = answer
        return found

    async def _unread(
        self, groups: Sequence[GroupState], running: Mapping[str, Mapping[str, RunningState]]
    ) -> Unread:
        """Return the queues of subscribed topics that no member of a group pulls or pops, if there are any."""
        topics = {topic for each in groups for topic in each.subscriptions}
        wanted = sorted(topic for topic in topics if not is_retry_topic(topic))
        known = await side_by_side(self._instance.fresh, wanted)
        queues = {
            topic: each.read_queues
            for topic, each in zip(wanted, known, strict=True)
            if not isinstance(each, CometError)  # No message was sent to the topic yet.
        }
        found: Unread = {}
        for group in groups:
            states = running[group.name].values()
            held = {queue for state in states for queue in (*state.queues, *state.pops)}
            lacking = [
                queue
                for queue in chain.from_iterable(
                    queues.get(topic, ()) for topic in group.subscriptions
                )
                if queue not in held
                and MessageQueue(queue.topic, queue.broker_name, _ANY_QUEUE) not in held
            ]
            if lacking:
                found[group.name] = lacking
        return found


def _registered(clusters: Iterable[ClusterInfo]) -> dict[str, BrokerData]:
    """Return each broker group by name, with the members that any of the nameservers' answers has."""
    found: dict[str, BrokerData] = {}
    for cluster in clusters:
        for name, broker in cluster.brokers.items():
            one = found.get(name, broker)
            found[name] = replace(one, addresses={**broker.addresses, **one.addresses})
    return found


def _uses_tls(values: Mapping[str, str]) -> bool:
    return (
        bool(values.get("tls.server.certPath")) and values.get("tls.server.mode") != "disabled"
    )


def _is_java(error: CometError) -> bool:
    return (
        isinstance(error, BrokerRefused)
        and error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    )
