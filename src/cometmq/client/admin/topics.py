"""Topics, as `AsyncAdmin.topics`: their queues and groups, and changes to them at all masters."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from cometmq.client.admin.absent import (
    AbsentBroker,
    missing_brokers,
    queues_that_answer,
    those_that_answer,
)
from cometmq.client.admin.groups import AsyncGroupAdmin
from cometmq.client.admin.noun import AsyncNoun
from cometmq.client.admin.states import GroupState, TopicState
from cometmq.client.api.asking import all_of, side_by_side
from cometmq.codec.bodies.assignment import RequestModeConfig
from cometmq.codec.bodies.stats import QueueBounds
from cometmq.model.errors import BrokerNotFound, CometError, GroupNotFound, TopicNotFound
from cometmq.model.flags import PERM_READ, PERM_WRITE
from cometmq.model.names import (
    DLQ_PREFIX,
    REPLAY_LEDGER_PREFIX,
    REPLY_TOPIC_SUFFIX,
    RETRY_PREFIX,
    check_topic,
    is_system_topic,
)
from cometmq.model.namespace import NO_NAMESPACE
from cometmq.model.queue import MessageQueue
from cometmq.model.route import BrokerData, TopicRoute
from cometmq.model.text import in_quotes
from cometmq.model.topic import TopicConfig


class TopicKind(enum.StrEnum):
    """Kinds of topics: for messages of users, for retries or dead letters of a group, and for brokers and tools."""

    MESSAGES = "messages"
    RETRY = "retry"
    DEAD_LETTERS = "dead letters"
    SYSTEM = "system"


class AsyncTopicAdmin(AsyncNoun):
    """The methods that list, show, create, change and delete topics of a cluster; a topic has its own settings at each broker."""

    _noun = "topics"

    async def kinds(self) -> dict[str, TopicKind]:
        """Return the kind of each topic by name, sorted; also of topics that only brokers have that left their nameserver."""
        live = self._live
        missing = await missing_brokers(live)
        known = await live.nameserver_api.cluster()
        # Clusters and brokers have topics named after themselves, which no user reads.
        clusters = {*known.broker_names, *(each.cluster for each in missing)}
        replies = {f"{cluster}_{REPLY_TOPIC_SUFFIX}" for cluster in clusters}
        made = {*clusters, *known.brokers, *(each.name for each in missing), *replies}
        away = {topic for broker in missing for topic in broker.queues or ()}
        names = {*await live.nameserver_api.topics(), *away}
        return {name: _kind(name, made) for name in sorted(self._own(names))}

    async def show(
        self, topic: str, missing: Sequence[AbsentBroker] | None = None
    ) -> TopicState:
        """Return the offsets and last store time of each queue of a topic, and its rate of stored messages per second.

        `absent` of the result lists the brokers that may have queues of the topic but do not answer or have left their
        nameserver; their queues are left out.

        Args:
            topic: Name of the topic.
            missing: Brokers that left their nameserver, as `AsyncAdmin.brokers.missing` returns them; None: they are queried
                now. Pass them if many topics are queried.

        Raises:
            TopicNotFound: The nameserver has no route of the topic, and no missing broker may have it.
            NetError: No broker of the route answers.
        """
        topic = self._full(topic)
        absent = await self._absent(topic, missing)
        try:
            route = await self._live.nameserver_api.route(topic)
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
            lambda address: self._brokers.topic_stats(address, topic), addresses.values()
        )
        parts = those_that_answer(addresses, answers, absent).values()
        queues = {queue: each for part in parts for queue, each in part.queues.items()}
        return TopicState(
            self._short_queues(dict(sorted(queues.items()))),
            sum(part.put_rate for part in parts),
            route.queues,
            tuple(absent.values()),
        )

    async def bounds(
        self, topic: str, missing: Sequence[AbsentBroker] | None = None
    ) -> TopicState:
        """Return the offsets of a topic's readable queues, without times and rate; requires no administrator's rights.

        Queues of brokers that do not answer are left out; `absent` lists these and the missing brokers that may have queues.

        Args:
            topic: Name of the topic.
            missing: Brokers that left their nameserver, as `AsyncAdmin.brokers.missing` returns them; None: they are queried
                now. Pass them if many topics are queried.

        Raises:
            TopicNotFound: The nameserver has no route of the topic, and no missing broker may have it.
        """
        topic = self._full(topic)
        absent = await self._absent(topic, missing)
        try:
            known = await self._live.known(topic)
            queues, routed = known.read_queues, known.route.queues
        except TopicNotFound:
            if not absent:
                raise
            queues, routed = (), ()
        found = dict(sorted((await self._offsets.bounds(queues)).items()))
        held = self._short_queues(queues_that_answer(found, found.values(), absent))
        return TopicState(held, routed=routed, absent=tuple(absent.values()))

    async def _absent(
        self, topic: str, missing: Sequence[AbsentBroker] | None
    ) -> dict[str, AbsentBroker]:
        if missing is None:
            missing = await missing_brokers(self._live)
        return {each.name: each for each in missing if each.has_any([topic])}

    async def offsets(self, topic: str) -> dict[MessageQueue, QueueBounds]:
        """Return the first and the next offset of each readable queue of a topic; raise TopicNotFound without a route.

        It raises the error of a broker that does not answer; `bounds` returns what is known.
        """
        queues = (await self._live.known(self._full(topic))).read_queues
        found = await self._offsets.bounds(queues)
        return self._short_queues(dict(zip(queues, all_of(found.values()), strict=True)))

    async def route(self, topic: str) -> TopicRoute:
        """Return the route of a topic: its brokers and queues; raise TopicNotFound if the nameserver has none."""
        return await self._live.nameserver_api.route(self._full(topic))

    async def configs(self, topic: str) -> dict[str, TopicConfig]:
        """Return a topic's settings by the names of the brokers that answer.

        Raises TopicNotFound if the nameserver has no route of the topic, NetError if no broker of the route answers.
        """
        topic = self._full(topic)
        brokers = (await self.route(topic)).brokers
        answers = await side_by_side(
            lambda address: self._brokers.topic_config(address, topic), map(_address, brokers)
        )
        names = (broker.broker_name for broker in brokers)
        return self._short_configs(those_that_answer(names, answers, {}))

    async def group_names(self, topic: str) -> list[str]:
        """Return the groups with offsets in a topic or members subscribed to it, sorted, of the brokers that answer.

        Raises TopicNotFound if the nameserver has no route of the topic, NetError if no broker of the route answers.
        """
        topic = self._full(topic)
        brokers = (await self._live.nameserver_api.route(topic)).brokers
        addresses = [address for each in brokers if (address := each.master_or_any())]
        answers = await side_by_side(
            lambda address: self._brokers.groups_of_topic(address, topic), addresses
        )
        found = those_that_answer(addresses, answers, {}).values()
        return self._own(sorted({group for part in found for group in part}))

    async def groups(self, topic: str, *, max_count: int | None = None) -> list[GroupState]:
        """Return the groups with offsets in a topic or members subscribed to it, each with the topic's queues only, sorted.

        A group that cannot be queried, for example because the user may not read it, has the reason in `unread`.

        Args:
            topic: Name of the topic.
            max_count: Maximum number of groups, the first by name; None: all.

        Raises:
            TopicNotFound: The nameserver has no route of the topic.
        """
        # Absent brokers know the topic by its full name.
        groups, full = AsyncGroupAdmin(self._admin, NO_NAMESPACE), self._full(topic)
        names = (await self.group_names(topic))[:max_count]
        found = await groups.some([*map(self._full, names)]) if names else []
        return [
            GroupState(name, unread=(str(state),))
            if isinstance(state, CometError)
            else self._short_group(state.in_topic(full))
            for name, state in zip(names, found, strict=True)
            if not isinstance(state, GroupNotFound)  # It was deleted meanwhile.
        ]

    async def create(
        self,
        topic: str,
        *,
        queues: int | None = None,
        read_queues: int | None = None,
        perm: int | None = None,
        cluster: str | None = None,
        broker: str | None = None,
        attributes: Mapping[str, str | None] | None = None,
    ) -> dict[str, TopicConfig]:
        """Create a topic, or change the given settings of an existing one; return the resulting settings by broker name.

        Args:
            topic: Name of the topic; if the user may not read it, settings that are None become those of a new one.
            queues: Number of write queues per broker, also of read queues unless `read_queues` is set; None: 8 if new.
            read_queues: Number of read queues per broker; None: as `queues`.
            perm: Bits of `model.flags.PERM_*`; None: read and write if new.
            cluster: Cluster to create it in; None: on every master.
            broker: Name of the broker group to create it at; None: all of the cluster.
            attributes: Attributes such as `message.type` (5.x), added to the existing ones; those that are None are removed.

        Raises:
            RequestError: The name is invalid.
            BrokerNotFound: No master is registered, none of the cluster, or not this one.
        """
        check_topic(topic)
        topic = self._full(topic)
        named = {
            "write_queues": queues,
            "read_queues": queues if read_queues is None else read_queues,
            "perm": perm,
        }
        changes = {name: value for name, value in named.items() if value is not None}
        changed = await self._each_master(
            lambda address: self._brokers.change_topic(
                address, topic, changes, attributes=attributes, is_made=True
            ),
            cluster,
            broker,
        )
        self._live.routes.drop(topic)
        return self._short_configs(changed)

    async def set_request_mode(
        self,
        topic: str,
        group: str,
        mode: str,
        *,
        share_queues: int = 0,
        cluster: str | None = None,
    ) -> None:
        """Set the mode in which a group consumes a topic, for members that let brokers assign the queues.

        Args:
            topic: The topic.
            group: The consumer group.
            mode: "PULL" or "POP".
            share_queues: With POP, the number of other members whose queues a member also pops; 0: all.
            cluster: Only in this cluster; None: on every master.

        Raises:
            BrokerRefused: A broker refuses, for example because it does not have the topic.
            BrokerNotFound: No master is registered.
        """
        config = RequestModeConfig(self._full(topic), self._full(group), mode, share_queues)
        await self._each_master(
            lambda address: self._brokers.set_request_mode(address, config), cluster
        )

    async def delete(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic and its messages at every master, then its routes at every nameserver; or in one cluster only.

        Raises BrokerNotFound if no master is registered, or none of the cluster.
        """
        topic = self._full(topic)
        await self._each_master(
            lambda address: self._brokers.delete_topic(address, topic), cluster
        )
        await self._live.nameserver_api.delete_topic(topic, cluster)
        self._live.routes.drop(topic)

    # --- Methods named like types stand last: in annotations behind them, these names would mean the methods.

    async def set(
        self,
        topic: str,
        changes: Mapping[str, Any],
        *,
        read: bool | None = None,
        write: bool | None = None,
        attributes: Mapping[str, str | None] | None = None,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> dict[str, TopicConfig]:
        """Change settings of a topic at each master that has it; return the resulting ones by broker name.

        Args:
            topic: Name of the topic.
            changes: Fields of `TopicConfig`, except name and attributes.
            read: Whether it may be consumed; None: as before.
            write: Whether producers may send to it; None: as before.
            attributes: As for `create`.
            cluster: Only at the masters of this cluster; None: at all masters.
            broker: Only at this master.

        Raises:
            BrokerNotFound: No such master is registered.
            TopicNotFound: None of them has the topic.
            SettingsError: `changes` has another field.
        """
        name, topic = topic, self._full(topic)
        wanted = {PERM_READ: read, PERM_WRITE: write}
        flags = {flag: given for flag, given in wanted.items() if given is not None}
        changed = await self._each_master(
            lambda address: self._brokers.change_topic(
                address, topic, changes, flags=flags, attributes=attributes
            ),
            cluster,
            broker,
        )
        if not any(changed.values()):
            place = (
                "no broker has"
                if broker is None
                else f"broker {in_quotes(broker)} does not have"
            )
            raise TopicNotFound(
                f"{place} the topic {in_quotes(name)}; create it with cometmq topic create or Admin.topics.create"
            )
        self._live.routes.drop(topic)
        return self._short_configs(changed)

    async def list(self) -> list[str]:
        """Return the names of all topics of the namespace, including system topics."""
        return sorted(self._own(await self._live.nameserver_api.topics()))


def _kind(topic: str, made: Collection[str]) -> TopicKind:
    """Return the kind of a topic by its name; `made` are the topics that brokers create for themselves."""
    if topic.startswith(RETRY_PREFIX):
        return TopicKind.RETRY
    if topic.startswith(DLQ_PREFIX):
        return TopicKind.DEAD_LETTERS
    is_own = topic in made or is_system_topic(topic) or topic.startswith(REPLAY_LEDGER_PREFIX)
    return TopicKind.SYSTEM if is_own else TopicKind.MESSAGES


def _address(broker: BrokerData) -> str:
    address = broker.master_or_any()
    if address is None:
        raise BrokerNotFound(
            f"broker {in_quotes(broker.broker_name)} has no registered address; start it"
        )
    return address
