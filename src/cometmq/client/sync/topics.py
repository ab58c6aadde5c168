"""The blocking `TopicAdmin`: made by tools/sync_facade.py from cometmq.client.admin.topics; do not edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cometmq.client.admin.absent import (
    AbsentBroker,
)
from cometmq.client.admin.states import GroupState, TopicState
from cometmq.client.admin.topics import AsyncTopicAdmin, TopicKind
from cometmq.client.sync.client import BlockingNoun
from cometmq.codec.bodies.stats import QueueBounds
from cometmq.model.queue import MessageQueue
from cometmq.model.route import TopicRoute
from cometmq.model.topic import TopicConfig


class TopicAdmin(BlockingNoun[AsyncTopicAdmin]):
    """The methods that list, show, create, change and delete topics of a cluster; a topic has its own settings at each broker."""

    def kinds(self) -> dict[str, TopicKind]:
        """Return the kind of each topic by name, sorted; also of topics that only brokers have that left their nameserver."""
        return self._portal.call(self._client.kinds)

    def show(self, topic: str, missing: Sequence[AbsentBroker] | None = None) -> TopicState:
        """Return the offsets and last store time of each queue of a topic, and its rate of stored messages per second.

        `absent` of the result lists the brokers that may have queues of the topic but do not answer or have left their
        nameserver; their queues are left out.

        Args:
            topic: Name of the topic.
            missing: Brokers that left their nameserver, as `Admin.brokers.missing` returns them; None: they are queried
                now. Pass them if many topics are queried.

        Raises:
            TopicNotFound: The nameserver has no route of the topic, and no missing broker may have it.
            NetError: No broker of the route answers.
        """
        return self._portal.call(self._client.show, topic, missing)

    def bounds(self, topic: str, missing: Sequence[AbsentBroker] | None = None) -> TopicState:
        """Return the offsets of a topic's readable queues, without times and rate; requires no administrator's rights.

        Queues of brokers that do not answer are left out; `absent` lists these and the missing brokers that may have queues.

        Args:
            topic: Name of the topic.
            missing: Brokers that left their nameserver, as `Admin.brokers.missing` returns them; None: they are queried
                now. Pass them if many topics are queried.

        Raises:
            TopicNotFound: The nameserver has no route of the topic, and no missing broker may have it.
        """
        return self._portal.call(self._client.bounds, topic, missing)

    def offsets(self, topic: str) -> dict[MessageQueue, QueueBounds]:
        """Return the first and the next offset of each readable queue of a topic; raise TopicNotFound without a route.

        It raises the error of a broker that does not answer; `bounds` returns what is known.
        """
        return self._portal.call(self._client.offsets, topic)

    def route(self, topic: str) -> TopicRoute:
        """Return the route of a topic: its brokers and queues; raise TopicNotFound if the nameserver has none."""
        return self._portal.call(self._client.route, topic)

    def configs(self, topic: str) -> dict[str, TopicConfig]:
        """Return a topic's settings by the names of the brokers that answer.

        Raises TopicNotFound if the nameserver has no route of the topic, NetError if no broker of the route answers.
        """
        return self._portal.call(self._client.configs, topic)

    def group_names(self, topic: str) -> list[str]:
        """Return the groups with offsets in a topic or members subscribed to it, sorted, of the brokers that answer.

        Raises TopicNotFound if the nameserver has no route of the topic, NetError if no broker of the route answers.
        """
        return self._portal.call(self._client.group_names, topic)

    def groups(self, topic: str, *, max_count: int | None = None) -> list[GroupState]:
        """Return the groups with offsets in a topic or members subscribed to it, each with the topic's queues only, sorted.

        A group that cannot be queried, for example because the user may not read it, has the reason in `unread`.

        Args:
            topic: Name of the topic.
            max_count: Maximum number of groups, the first by name; None: all.

        Raises:
            TopicNotFound: The nameserver has no route of the topic.
        """
        return self._portal.call(self._client.groups, topic, max_count=max_count)

    def create(
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
        return self._portal.call(
            self._client.create,
            topic,
            queues=queues,
            read_queues=read_queues,
            perm=perm,
            cluster=cluster,
            broker=broker,
            attributes=attributes,
        )

    def set_request_mode(
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
        self._portal.call(
            self._client.set_request_mode,
            topic,
            group,
            mode,
            share_queues=share_queues,
            cluster=cluster,
        )

    def delete(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic and its messages at every master, then its routes at every nameserver; or in one cluster only.

        Raises BrokerNotFound if no master is registered, or none of the cluster.
        """
        self._portal.call(self._client.delete, topic, cluster=cluster)

    def set(
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
        return self._portal.call(
            self._client.set,
            topic,
            changes,
            read=read,
            write=write,
            attributes=attributes,
            cluster=cluster,
            broker=broker,
        )

    def list(self) -> list[str]:
        """Return the names of all topics of the namespace, including system topics."""
        return self._portal.call(self._client.list)
