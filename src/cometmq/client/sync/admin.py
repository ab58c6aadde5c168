"""The blocking `Admin`: made by tools/sync_facade.py from cometmq.client.admin.admin; do not edit."""

from collections.abc import Mapping
from typing import Any

from cometmq.client.admin.admin import AsyncAdmin
from cometmq.client.admin.roles import Promotion
from cometmq.client.results import Replica
from cometmq.client.settings import ClientSettings
from cometmq.client.sync.client import BlockingClient
from cometmq.client.sync.topics import TopicAdmin
from cometmq.codec.bodies.cluster import ClusterInfo
from cometmq.codec.bodies.connection import ClientConnection, ConsumerConnections
from cometmq.codec.bodies.stats import QueueProgress
from cometmq.model.group import GroupConfig
from cometmq.model.message import StoredMessage
from cometmq.model.queue import MessageQueue


class Admin(BlockingClient[AsyncAdmin]):
    """Administers a cluster: topics, groups, routes, offsets, messages, connections.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        settings: Times. With a namespace, names are without it; `topics` and `groups` list only its own and the system's.

    Raises:
        SettingsError: A nameserver address, or a setting for credentials or TLS in the environment, is invalid.
    """

    def __init__(
        self, nameservers: str | None = None, *, settings: ClientSettings | None = None
    ) -> None:
        super().__init__(AsyncAdmin(nameservers, settings=settings))

    @property
    def topics(self) -> TopicAdmin:
        """The topics of the cluster."""
        return TopicAdmin(self._portal, self._client.topics)

    def cluster(self) -> ClusterInfo:
        """Return the clusters with their brokers that the nameserver knows."""
        result: ClusterInfo = self._portal.call(self._client.cluster)
        return result

    def replicas(self) -> list[Replica]:
        """Return each member of each broker group, sorted by name and id, with its replication status or an error.

        A second broker that claims the id of a member has an `owner`; it is left out if it does not answer.
        """
        result: list[Replica] = self._portal.call(self._client.replicas)
        return result

    def change_settings(self, broker_name: str, values: Mapping[str, str]) -> None:
        """Change settings of a running master; a CometMQ broker changes all of them or none.

        Raises:
            BrokerNotFound: No such master is registered.
            BrokerRefused: The broker refuses, for example because a setting cannot be changed at run time; or it could not
                save the change, which is then effective until the next start.
        """
        self._portal.call(self._client.change_settings, broker_name, values)

    def drain(self, broker_name: str) -> int:
        """Remove write permission from a broker's routes, so that producers avoid it; return the number of its topics.

        Its messages can still be consumed. This lasts until `undrain`, until a nameserver restarts, or until the broker
        returns after it was gone or registers changed topics. Raises BrokerNotFound if no such master is registered.
        """
        result: int = self._portal.call(self._client.drain, broker_name)
        return result

    def undrain(self, broker_name: str) -> int:
        """Make all of a broker's routes readable and writable; return the number of its topics, or raise BrokerNotFound."""
        result: int = self._portal.call(self._client.undrain, broker_name)
        return result

    def kv_values(self, namespace: str) -> dict[str, str]:
        """Return the values of a namespace of the nameservers' key-value configuration by key; empty if it is unknown."""
        result: dict[str, str] = self._portal.call(self._client.kv_values, namespace)
        return result

    def set_kv_value(self, namespace: str, key: str, value: str) -> None:
        """Set a value of the key-value configuration at every nameserver.

        Raises:
            SettingsError: The namespace or the key is empty; or the namespace is ORDER_TOPIC_CONFIG, and the value is not
                "broker-a:4;broker-b:4".
            NetError: A nameserver did not answer; others may have the value.
        """
        self._portal.call(self._client.set_kv_value, namespace, key, value)

    def delete_kv_value(self, namespace: str, key: str) -> None:
        """Delete a value of the key-value configuration, if there is one, at every nameserver."""
        self._portal.call(self._client.delete_kv_value, namespace, key)

    def promotion(
        self, broker_name: str, broker_id: int | None = None, *, role: str | None = None
    ) -> Promotion:
        """Return what promoting a slave to master would do and what would be lost by it, without doing it.

        Args:
            broker_name: The broker group.
            broker_id: Id of the slave; None: the one with the largest offset.
            role: SYNC_MASTER or ASYNC_MASTER; None: that of the present master if it answers, otherwise ASYNC_MASTER.

        Raises:
            BrokerNotFound: No such group is registered, or no such slave answers.
        """
        result: Promotion = self._portal.call(
            self._client.promotion, broker_name, broker_id, role=role
        )
        return result

    def promote(
        self,
        broker_name: str,
        broker_id: int | None = None,
        *,
        role: str | None = None,
        force: bool = False,
    ) -> Promotion:
        """Make a running CometMQ slave the master; a present master that answers hands over everything and becomes a slave.

        Args:
            broker_name: The broker group.
            broker_id: Id of the slave; None: the one with the largest offset.
            role: SYNC_MASTER or ASYNC_MASTER; None: as for `promotion`.
            force: Do it also if there are obstacles (`Promotion.obstacles`).

        Raises:
            BrokerNotFound: No such group is registered, or no such slave answers.
            RequestError: There are obstacles.
            BrokerRefused: A broker cannot change its role now; usually all have their old roles.
            NetError: A broker did not answer; the group may have no master now.
        """
        result: Promotion = self._portal.call(
            self._client.promote, broker_name, broker_id, role=role, force=force
        )
        return result

    def demote(
        self, broker_name: str, *, address: str | None = None, successor: int | None = None
    ) -> int:
        """Make a running CometMQ master a slave, and return its new id; a group without a master takes no messages.

        Args:
            broker_name: The broker group.
            address: Address of a master that has lost its name to another one; None: the registered master.
            successor: Id of a slave that must have everything first; None: no slave needs to.

        Raises:
            BrokerNotFound: No such master is registered.
            BrokerRefused: It did not become a slave; usually its role is as before. After a NetError it may be a slave.
        """
        result: int = self._portal.call(
            self._client.demote, broker_name, address=address, successor=successor
        )
        return result

    def messages_by_key(
        self,
        topic: str,
        key: str,
        *,
        count_max: int = 64,
        begin_ms: int = 0,
        end_ms: int | None = None,
    ) -> list[StoredMessage]:
        """Return messages with a key, the oldest first; if there are too many, the newest ones.

        Args:
            topic: Topic of the messages.
            key: A key that the producer set.
            count_max: Maximum number of messages; a broker returns at most 64 (`maxMsgsNumBatch`).
            begin_ms: Only messages stored at or after this time, ms since 1970.
            end_ms: Only messages stored at or before this time, ms since 1970; None: no limit.

        Raises:
            TopicNotFound: The nameserver has no route of the topic.
        """
        result: list[StoredMessage] = self._portal.call(
            self._client.messages_by_key,
            topic,
            key,
            count_max=count_max,
            begin_ms=begin_ms,
            end_ms=end_ms,
        )
        return result

    def message_by_id(self, topic: str, message_id: str) -> StoredMessage | None:
        """Return the message with an id that its producer assigned, the newest one if there are several, or None.

        Raises TopicNotFound if the nameserver has no route of the topic.
        """
        result: StoredMessage | None = self._portal.call(
            self._client.message_by_id, topic, message_id
        )
        return result

    def view_message(self, offset_message_id: str) -> StoredMessage:
        """Return the message at the place that an offset message id contains: a broker and a physical offset.

        Raises BrokerRefused if there is none, BrokerNotFound for an unregistered address, CodecError for a malformed id.
        """
        result: StoredMessage = self._portal.call(self._client.view_message, offset_message_id)
        return result

    def create_group(self, group: GroupConfig, *, cluster: str | None = None) -> None:
        """Create a consumer group, or change its settings, at every master of the cluster, or of all clusters.

        Raises RequestError if the name is invalid, and BrokerNotFound if there is no such master.
        """
        self._portal.call(self._client.create_group, group, cluster=cluster)

    def change_group(self, group: str, changes: Mapping[str, Any]) -> dict[str, GroupConfig]:
        """Change fields of `GroupConfig`, except the name, at each master that has a group; return the results by broker name.

        Raises BrokerNotFound without a master, GroupNotFound if none has the group, SettingsError for another field.
        """
        result: dict[str, GroupConfig] = self._portal.call(
            self._client.change_group, group, changes
        )
        return result

    def delete_group(
        self, group: str, *, delete_offsets: bool = True, cluster: str | None = None
    ) -> None:
        """Delete a consumer group and, unless `delete_offsets` is False, its offsets (in CometMQ also its own retry topics).

        Raises BrokerNotFound if no master is registered.
        """
        self._portal.call(
            self._client.delete_group, group, delete_offsets=delete_offsets, cluster=cluster
        )

    def groups(self, *, cluster: str | None = None) -> dict[str, GroupConfig]:
        """Return all consumer groups of the namespace by name; if masters differ, with the settings of the last one.

        Raises BrokerNotFound if no master is registered.
        """
        result: dict[str, GroupConfig] = self._portal.call(self._client.groups, cluster=cluster)
        return result

    def group_offsets(self, group: str, topic: str) -> dict[MessageQueue, int | None]:
        """Return a group's committed offset in each queue of a topic; without one None, or 0 in a queue that counts as new.

        Raises TopicNotFound if the nameserver has no route of the topic.
        """
        result: dict[MessageQueue, int | None] = self._portal.call(
            self._client.group_offsets, group, topic
        )
        return result

    def group_progress(
        self, group: str, topic: str | None = None
    ) -> dict[MessageQueue, QueueProgress]:
        """Return the offsets, lag and times of a group by queue, as brokers report them, of a topic or of all its topics.

        A broker group without a master is answered for by its slave of the lowest id. Raises BrokerNotFound without any
        broker, or if the nameserver remembers a broker that left and may have more queues; `Inspector.group` then returns
        what is known. Queues of brokers that RocketMQ's nameserver has forgotten are missing in the result.
        """
        result: dict[MessageQueue, QueueProgress] = self._portal.call(
            self._client.group_progress, group, topic
        )
        return result

    def lag(self, group: str, topic: str | None = None) -> dict[MessageQueue, int]:
        """Return a group's number of unconsumed messages by queue, as in `group_progress`, also for queues without an offset.

        Args:
            group: The consumer group.
            topic: Topic of the queues; None: all topics in which it has offsets, or (not with Java brokers) that its
                members subscribe to.

        Raises:
            GroupNotFound: No broker knows the group; a misspelt group thus does not seem to be without a backlog.
            BrokerNotFound: No broker is registered, or one that may have more queues has left.
        """
        result: dict[MessageQueue, int] = self._portal.call(self._client.lag, group, topic)
        return result

    def reset_offsets(
        self, group: str, topic: str, timestamp_ms: int | None
    ) -> dict[MessageQueue, int]:
        """Move a group in all queues of a topic to a time, where its members continue; return the new offset by queue.

        Args:
            group: The consumer group.
            topic: Topic of the queues.
            timestamp_ms: Go on at the first message stored at or after this time, ms since 1970; 0: the first; None:
                the end.

        Raises:
            TopicNotFound: The nameserver has no route of the topic.
            BrokerNotFound: A broker of the topic has no master at the moment.
            BrokerRefused: A broker refuses, for example because it does not know the group.
        """
        result: dict[MessageQueue, int] = self._portal.call(
            self._client.reset_offsets, group, topic, timestamp_ms
        )
        return result

    def offsets_at(self, topic: str, timestamp_ms: int | None) -> dict[MessageQueue, int]:
        """Return the offsets to which `reset_offsets` would move a group, by queue, without moving it.

        Raises TopicNotFound if the nameserver has no route of the topic.
        """
        result: dict[MessageQueue, int] = self._portal.call(
            self._client.offsets_at, topic, timestamp_ms
        )
        return result

    def set_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Move a group to given offsets (the next to consume, by queue); connected members continue there.

        Raises:
            TopicNotFound: The nameserver has no route of a topic.
            RequestError: A queue or offset does not exist, or a broker cannot move members; others may have moved theirs.
        """
        self._portal.call(self._client.set_offsets, group, offsets)

    def recall(self, handle: str) -> str:
        """Cancel a message that waits for its delivery time, and return the message id in the handle.

        Args:
            handle: `SendResult.recall_handle`. Whether the message still exists is not checked.

        Raises:
            CodecError: The handle is malformed.
            TopicNotFound: The nameserver has no route of the message's topic.
            BrokerNotFound: The topic's route does not have the message's broker.
            BrokerRefused: The broker refuses, for example as recallMessageEnable is false or the message is due.
        """
        result: str = self._portal.call(self._client.recall, handle)
        return result

    def consumer_connections(self, group: str) -> dict[str, ConsumerConnections]:
        """Return the members of a consumer group that are connected to each master, by broker name.

        Masters without a member are left out. Raises BrokerNotFound if no master is registered.
        """
        result: dict[str, ConsumerConnections] = self._portal.call(
            self._client.consumer_connections, group
        )
        return result

    def producer_connections(self, group: str) -> dict[str, tuple[ClientConnection, ...]]:
        """Return the members of a producer group that are connected to each master, by broker name.

        Masters without a member are left out. Raises BrokerNotFound if no master is registered.
        """
        result: dict[str, tuple[ClientConnection, ...]] = self._portal.call(
            self._client.producer_connections, group
        )
        return result
