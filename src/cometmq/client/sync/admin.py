"""The blocking `Admin`: made by tools/sync_facade.py from cometmq.client.admin.admin; do not edit."""

from collections.abc import Mapping

from cometmq.client.admin.admin import AsyncAdmin
from cometmq.client.admin.roles import Promotion
from cometmq.client.results import Replica
from cometmq.client.settings import ClientSettings
from cometmq.client.sync.client import BlockingClient
from cometmq.client.sync.groups import GroupAdmin
from cometmq.client.sync.offsets import OffsetAdmin
from cometmq.client.sync.topics import TopicAdmin
from cometmq.codec.bodies.cluster import ClusterInfo
from cometmq.model.message import StoredMessage


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

    @property
    def groups(self) -> GroupAdmin:
        """The consumer groups of the cluster."""
        return GroupAdmin(self._portal, self._client.groups)

    @property
    def offsets(self) -> OffsetAdmin:
        """The offsets of consumer groups."""
        return OffsetAdmin(self._portal, self._client.offsets)

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
