"""The blocking `Admin`: made by tools/sync_facade.py from cometmq.client.admin.admin; do not edit."""

from collections.abc import Mapping
from typing import Any

from cometmq.client.admin.admin import AsyncAdmin
from cometmq.client.results import QueueRange, Replica
from cometmq.client.settings import ClientSettings
from cometmq.client.sync.client import BlockingClient
from cometmq.codec.bodies.cluster import ClusterInfo
from cometmq.codec.bodies.connection import ClientConnection, ConsumerConnections
from cometmq.codec.bodies.stats import QueueProgress
from cometmq.model.group import GroupConfig
from cometmq.model.message import StoredMessage
from cometmq.model.queue import MessageQueue
from cometmq.model.route import TopicRoute
from cometmq.model.topic import TopicConfig


class Admin(BlockingClient[AsyncAdmin]):
    """Administers a cluster: topics, groups, routes, offsets, messages, connections.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        settings: times; with a namespace names are short here, and topics and groups of others are not seen.

    Raises:
        SettingsError: a nameserver address cannot be read.
    """

    def __init__(
        self, nameservers: str | None = None, *, settings: ClientSettings | None = None
    ) -> None:
        super().__init__(AsyncAdmin(nameservers, settings=settings))

    def cluster(self) -> ClusterInfo:
        """All clusters that the nameserver knows, with their brokers."""
        result: ClusterInfo = self._portal.call(self._client.cluster)
        return result

    def route(self, topic: str) -> TopicRoute:
        """Brokers and queues of a topic.

        Raises:
            TopicNotFound: the nameserver knows none.
        """
        result: TopicRoute = self._portal.call(self._client.route, topic)
        return result

    def replicas(self) -> list[Replica]:
        """Each member of each broker group, masters first, and how far its copy of the log is; all are asked side by side.

        A broker that claims the id of another member is one more, with an `error`.
        """
        result: list[Replica] = self._portal.call(self._client.replicas)
        return result

    def change_settings(self, broker_name: str, values: Mapping[str, str]) -> None:
        """Change settings of a running master: all of them or none.

        Raises:
            BrokerNotFound: no such master is registered.
            BrokerRefused: one of them may not be changed so, or has no such value.
        """
        self._portal.call(self._client.change_settings, broker_name, values)

    def drain(self, broker_name: str) -> int:
        """Stop sends to a broker by taking write permission from its routes; what it has can be consumed.

        Routes say so until `undrain`, until the nameservers start again, or until the broker registers changed topics.

        Returns:
            Of how many topics.

        Raises:
            BrokerNotFound: no such master is registered.
        """
        result: int = self._portal.call(self._client.drain, broker_name)
        return result

    def undrain(self, broker_name: str) -> int:
        """Let messages be sent again to a broker that was drained; the number of its topics.

        Raises:
            BrokerNotFound: no such master is registered.
        """
        result: int = self._portal.call(self._client.undrain, broker_name)
        return result

    def topics(self) -> list[str]:
        """Names of all topics of the namespace, sorted, the system's among them."""
        result: list[str] = self._portal.call(self._client.topics)
        return result

    def create_topic(
        self,
        topic: str,
        *,
        queues: int | None = None,
        read_queues: int | None = None,
        perm: int | None = None,
        cluster: str | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> dict[str, TopicConfig]:
        """Make a topic, or change what is named here of one; at each broker it keeps the rest as it is there.

        Args:
            topic: its name.
            queues: to write to, on each broker, and to read from where `read_queues` is None; None: 8 of a new one.
            read_queues: to read from.
            perm: bits of `model.flags.PERM_*`; None: of a new one, to read and write.
            cluster: where; None: on every master.
            attributes: such as `message.type` (5.x); added to those that it has.

        Returns:
            Its settings now, by broker name.

        Raises:
            RequestError: the name is illegal.
            BrokerNotFound: no broker is there.
        """
        result: dict[str, TopicConfig] = self._portal.call(
            self._client.create_topic,
            topic,
            queues=queues,
            read_queues=read_queues,
            perm=perm,
            cluster=cluster,
            attributes=attributes,
        )
        return result

    def change_topic(self, topic: str, changes: Mapping[str, Any]) -> dict[str, TopicConfig]:
        """Change fields of `TopicConfig`, but attributes, at each master that has a topic, and leave the others as they are there.

        Returns:
            Its settings now, by broker name.

        Raises:
            BrokerNotFound: no broker is there.
            TopicNotFound: no broker has it.
        """
        result: dict[str, TopicConfig] = self._portal.call(
            self._client.change_topic, topic, changes
        )
        return result

    def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic and all its messages, at the brokers and then at every nameserver.

        Raises:
            BrokerNotFound: no broker is there.
        """
        self._portal.call(self._client.delete_topic, topic, cluster=cluster)

    def topic_configs(self, topic: str) -> dict[str, TopicConfig]:
        """A topic's settings, by broker name.

        Raises:
            TopicNotFound: the nameserver knows none.
        """
        result: dict[str, TopicConfig] = self._portal.call(self._client.topic_configs, topic)
        return result

    def topic_offsets(self, topic: str) -> dict[MessageQueue, QueueRange]:
        """The smallest and the next offset of each queue of a topic.

        Raises:
            TopicNotFound: the nameserver knows none.
        """
        result: dict[MessageQueue, QueueRange] = self._portal.call(
            self._client.topic_offsets, topic
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
        """Messages that have a key, the oldest first; if there are more, the newest ones.

        Args:
            topic: of the messages.
            key: one of those that their producer gave them.
            count_max: most messages; a broker gives at most 64 (`maxMsgsNumBatch`).
            begin_ms: stored at that time or later, ms since 1970.
            end_ms: stored at that time or earlier; None: until now.

        Raises:
            TopicNotFound: the nameserver knows none.
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
        """The message with the id that its producer gave it; the newest of several.

        Raises:
            TopicNotFound: the nameserver knows none.
        """
        result: StoredMessage | None = self._portal.call(
            self._client.message_by_id, topic, message_id
        )
        return result

    def view_message(self, offset_message_id: str) -> StoredMessage:
        """The message that lies where an offset message id says: at that broker, at that place.

        Raises:
            BrokerRefused: there is none.
        """
        result: StoredMessage = self._portal.call(self._client.view_message, offset_message_id)
        return result

    def create_group(self, group: GroupConfig, *, cluster: str | None = None) -> None:
        """Make a consumer group, or change it.

        Raises:
            RequestError: the name is illegal.
            BrokerNotFound: no broker is there.
        """
        self._portal.call(self._client.create_group, group, cluster=cluster)

    def change_group(self, group: str, changes: Mapping[str, Any]) -> dict[str, GroupConfig]:
        """Change fields of `GroupConfig` at each master that has a group, and leave the others as they are there.

        Returns:
            Its settings now, by broker name.

        Raises:
            BrokerNotFound: no broker is there.
            GroupNotFound: no broker has it.
        """
        result: dict[str, GroupConfig] = self._portal.call(
            self._client.change_group, group, changes
        )
        return result

    def delete_group(
        self, group: str, *, delete_offsets: bool = True, cluster: str | None = None
    ) -> None:
        """Delete a consumer group and its offsets.

        Raises:
            BrokerNotFound: no broker is there.
        """
        self._portal.call(
            self._client.delete_group, group, delete_offsets=delete_offsets, cluster=cluster
        )

    def groups(self, *, cluster: str | None = None) -> dict[str, GroupConfig]:
        """All consumer groups of the namespace by name; where brokers differ, the last one's settings.

        Raises:
            BrokerNotFound: no broker is there.
        """
        result: dict[str, GroupConfig] = self._portal.call(self._client.groups, cluster=cluster)
        return result

    def set_request_mode(
        self,
        topic: str,
        group: str,
        mode: str,
        *,
        share_queues: int = 0,
        cluster: str | None = None,
    ) -> None:
        """Set how a group consumes a topic where its members let brokers share the queues out.

        Args:
            topic: of the queues.
            group: the consumer group.
            mode: "PULL" or "POP".
            share_queues: with POP how many other members' queues a member pops, too; 0: all.
            cluster: only there.

        Raises:
            BrokerRefused: there is no such topic or group.
            BrokerNotFound: no broker is there.
        """
        self._portal.call(
            self._client.set_request_mode,
            topic,
            group,
            mode,
            share_queues=share_queues,
            cluster=cluster,
        )

    def group_offsets(self, group: str, topic: str) -> dict[MessageQueue, int | None]:
        """The next offset that a group consumes in each queue of a topic; None where it has none.

        Raises:
            TopicNotFound: the nameserver knows none.
        """
        result: dict[MessageQueue, int | None] = self._portal.call(
            self._client.group_offsets, group, topic
        )
        return result

    def group_progress(
        self, group: str, topic: str | None = None
    ) -> dict[MessageQueue, QueueProgress]:
        """The offsets, lag and times of a group, by queue of a topic or of all that it consumes.

        Raises:
            BrokerNotFound: A broker that may have more queues has left; `Inspector.group` gives what is known.
        """
        result: dict[MessageQueue, QueueProgress] = self._portal.call(
            self._client.group_progress, group, topic
        )
        return result

    def lag(self, group: str, topic: str | None = None) -> dict[MessageQueue, int]:
        """Messages that a group has not consumed yet, by queue, those without an offset among them.

        Args:
            group: the consumer group.
            topic: of the queues; None: all topics that its members want, or in which it has offsets.

        Raises:
            GroupNotFound: no broker knows it, so that a misspelt group is not one without a backlog.
            BrokerNotFound: no broker is there, or one has left that may have more queues: `Inspector.group` gives what is known.
        """
        result: dict[MessageQueue, int] = self._portal.call(self._client.lag, group, topic)
        return result

    def reset_offsets(
        self, group: str, topic: str, timestamp_ms: int | None
    ) -> dict[MessageQueue, int]:
        """Move a group to a time in all queues of a topic; its members are sent there.

        Args:
            group: the consumer group; the brokers must know it.
            topic: of the queues.
            timestamp_ms: at the first message stored then or later, ms since 1970; 0: at the first there is;
                None: at the end.

        Returns:
            The offset at which it goes on, by queue.

        Raises:
            TopicNotFound: the nameserver knows none.
            BrokerNotFound: a broker of the topic has no master now.
            BrokerRefused: a broker does not know the group.
        """
        result: dict[MessageQueue, int] = self._portal.call(
            self._client.reset_offsets, group, topic, timestamp_ms
        )
        return result

    def offsets_at(self, topic: str, timestamp_ms: int | None) -> dict[MessageQueue, int]:
        """The offsets to which `reset_offsets` would move a group, by queue; nothing is moved.

        Raises:
            TopicNotFound: the nameserver knows none.
        """
        result: dict[MessageQueue, int] = self._portal.call(
            self._client.offsets_at, topic, timestamp_ms
        )
        return result

    def set_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Move a group to these offsets; its members are sent there.

        Args:
            group: the consumer group.
            offsets: the next offset to consume, by queue.

        Raises:
            TopicNotFound: the nameserver knows none.
            RequestError: a queue that is not there, an offset that it does not have, or members that their broker
                cannot move to an offset: then nothing was moved at that broker.
        """
        self._portal.call(self._client.set_offsets, group, offsets)

    def recall(self, handle: str) -> str:
        """Take back a message that waits for its time; gives its message id.

        Args:
            handle: `SendResult.recall_handle`; the broker must have recallMessageEnable.

        Raises:
            CodecError: it is no handle.
            TopicNotFound: the nameserver does not know the message's topic.
            BrokerNotFound: the message's broker is not there.
        """
        result: str = self._portal.call(self._client.recall, handle)
        return result

    def consumer_connections(self, group: str) -> dict[str, ConsumerConnections]:
        """The members of a consumer group that each broker sees, by broker name.

        Raises:
            BrokerNotFound: no broker is there.
        """
        result: dict[str, ConsumerConnections] = self._portal.call(
            self._client.consumer_connections, group
        )
        return result

    def producer_connections(self, group: str) -> dict[str, tuple[ClientConnection, ...]]:
        """The members of a producer group that each broker sees, by broker name.

        Raises:
            BrokerNotFound: no broker is there.
        """
        result: dict[str, tuple[ClientConnection, ...]] = self._portal.call(
            self._client.producer_connections, group
        )
        return result
