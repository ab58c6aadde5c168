"""Looks after a cluster: topics, groups, routes, offsets, connections.

    async with AsyncAdmin("127.0.0.1:9876") as admin:
        await admin.create_topic("orders", queues=8)

`cometmq.client.Admin` is the same for threads.

Next: cometmq.client.nameservers
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from cometmq.client.connections import consumers_of, producers_of
from cometmq.client.group_progress import progress_of
from cometmq.client.hub import Hub
from cometmq.client.offsets import BrokerOffsets
from cometmq.client.queries import MessageQueries
from cometmq.client.results import QueueRange
from cometmq.client.settings import ClientSettings
from cometmq.codec.bodies.assignment import RequestModeConfig, encode_request_mode
from cometmq.codec.bodies.cluster import ClusterInfo, decode_cluster_info
from cometmq.codec.bodies.connection import ClientConnection, ConsumerConnections
from cometmq.codec.bodies.group_config import decode_group_table, encode_group_config
from cometmq.codec.bodies.stats import QueueProgress
from cometmq.codec.bodies.topic_config import decode_topic_config
from cometmq.codec.bodies.topic_list import decode_topic_list
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.nameserver import DeleteTopicInNameserver
from cometmq.codec.headers.recall import RecallRequest
from cometmq.codec.headers.topic import CreateTopic, DeleteGroup, TopicRequest
from cometmq.codec.recall_handle import decode_recall_handle
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.model.errors import BrokerNotFound
from cometmq.model.flags import PERM_READ_WRITE
from cometmq.model.group import GroupConfig
from cometmq.model.message import StoredMessage
from cometmq.model.names import check_group, check_topic
from cometmq.model.queue import MessageQueue
from cometmq.model.route import BrokerData, TopicRoute
from cometmq.model.topic import TopicConfig

# Making and deleting topics touches files and tells nameservers: mqadmin allows 5 s.
_CHANGE_TIMEOUT_MS = 10_000


class AsyncAdmin:
    """An administrator. Its methods raise NetError, BrokerRefused and CodecError besides what they name.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        settings: times.
        hub: share another client's connections; its owner closes it.

    Raises:
        SettingsError: a nameserver address cannot be read.
    """

    def __init__(
        self,
        nameservers: str | None = None,
        *,
        settings: ClientSettings | None = None,
        hub: Hub | None = None,
    ) -> None:
        self._hub = hub or Hub(nameservers, settings)
        self._owns_hub = hub is None
        self._offsets = BrokerOffsets(self._hub)
        self._queries = MessageQueries(self._hub)

    def __repr__(self) -> str:
        """Client and nameservers."""
        return f"<{type(self).__name__} of {self._hub!r}>"

    async def start(self) -> None:
        """Begin; nothing is connected before the first call."""
        await self._hub.start()

    async def close(self) -> None:
        """Close the connections."""
        if self._owns_hub:
            await self._hub.close()

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Close."""
        await self.close()

    # --- clusters

    async def cluster(self) -> ClusterInfo:
        """All clusters that the nameserver knows, with their brokers."""
        answer = await self._hub.nameservers.ask(Command(RequestCode.GET_BROKER_CLUSTER_INFO))
        return decode_cluster_info(answer.body)

    async def route(self, topic: str) -> TopicRoute:
        """Brokers and queues of a topic.

        Raises:
            TopicNotFound: the nameserver knows none.
        """
        return await self._hub.nameservers.route(topic)

    async def _masters(self, cluster: str | None) -> dict[str, str]:
        """Addresses of the masters of a cluster, or of all, by broker name."""
        known = await self.cluster()
        names = (
            known.broker_names.get(cluster, ()) if cluster is not None else tuple(known.brokers)
        )
        masters = {
            name: address
            for name in names
            if name in known.brokers
            and (address := known.brokers[name].addresses.get(0)) is not None
        }
        if not masters:
            there = ", ".join(known.broker_names) or "none"
            raise BrokerNotFound(
                f"no master of {cluster or 'any cluster'!r} is registered; clusters: {there}"
            )
        return masters

    # --- topics

    async def topics(self) -> list[str]:
        """Names of all topics, sorted, the system's among them."""
        command = Command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        answer = await self._hub.nameservers.ask(command)
        return sorted(decode_topic_list(answer.body).topics)

    async def create_topic(
        self,
        topic: str,
        *,
        queues: int = 8,
        read_queues: int | None = None,
        perm: int = PERM_READ_WRITE,
        cluster: str | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        """Make a topic, or change it.

        Args:
            topic: its name.
            queues: to write to, on each broker.
            read_queues: to read from; None: as many.
            perm: bits of `model.flags.PERM_*`.
            cluster: where; None: on every master.
            attributes: such as `message.type` (5.x).

        Raises:
            RequestError: the name is illegal.
            BrokerNotFound: no broker is there.
        """
        check_topic(topic)
        added = ",".join(f"+{key}={value}" for key, value in (attributes or {}).items())
        header = CreateTopic(
            topic,
            queues if read_queues is None else read_queues,
            queues,
            perm,
            topic_sys_flag=0,
            attributes=added or None,
        )
        command = Command(RequestCode.UPDATE_AND_CREATE_TOPIC, fields=encode_fields(header))
        for address in (await self._masters(cluster)).values():
            await self._hub.ask(address, command, timeout_ms=_CHANGE_TIMEOUT_MS)
        self._hub.routes.drop(topic)

    async def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic and all its messages, at the brokers and then at every nameserver.

        Raises:
            BrokerNotFound: no broker is there.
        """
        command = Command(
            RequestCode.DELETE_TOPIC_IN_BROKER, fields=encode_fields(TopicRequest(topic))
        )
        for address in (await self._masters(cluster)).values():
            await self._hub.ask(address, command, timeout_ms=_CHANGE_TIMEOUT_MS)
        header = DeleteTopicInNameserver(topic, cluster)
        command = Command(RequestCode.DELETE_TOPIC_IN_NAMESRV, fields=encode_fields(header))
        for nameserver in self._hub.nameservers.addresses:
            await self._hub.ask(nameserver, command)
        self._hub.routes.drop(topic)

    async def topic_configs(self, topic: str) -> dict[str, TopicConfig]:
        """A topic's settings, by broker name.

        Raises:
            TopicNotFound: the nameserver knows none.
        """
        command = Command(
            RequestCode.GET_TOPIC_CONFIG, fields=encode_fields(TopicRequest(topic))
        )
        configs = {}
        for broker in (await self.route(topic)).brokers:
            answer = await self._hub.ask(_address(broker), command)
            configs[broker.broker_name] = decode_topic_config(answer.body)
        return configs

    async def topic_offsets(self, topic: str) -> dict[MessageQueue, QueueRange]:
        """What each queue of a topic holds.

        Raises:
            TopicNotFound: the nameserver knows none.
        """
        return {
            queue: QueueRange(
                await self._offsets.min_offset(queue), await self._offsets.max_offset(queue)
            )
            for queue in (await self._hub.known(topic)).read_queues
        }

    # --- messages

    async def messages_by_key(
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
        return await self._queries.by_key(
            topic, key, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms
        )

    async def message_by_id(self, topic: str, message_id: str) -> StoredMessage | None:
        """The message with the id that its producer gave it; the newest of several.

        Raises:
            TopicNotFound: the nameserver knows none.
        """
        return await self._queries.by_unique_id(topic, message_id)

    async def view_message(self, offset_message_id: str) -> StoredMessage:
        """The message that lies where an offset message id says: at that broker, at that place.

        Raises:
            BrokerRefused: there is none.
        """
        return await self._queries.view(offset_message_id)

    # --- groups

    async def create_group(self, group: GroupConfig, *, cluster: str | None = None) -> None:
        """Make a consumer group, or change it.

        Raises:
            RequestError: the name is illegal.
            BrokerNotFound: no broker is there.
        """
        check_group(group.name)
        command = Command(
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode_group_config(group)
        )
        for address in (await self._masters(cluster)).values():
            await self._hub.ask(address, command, timeout_ms=_CHANGE_TIMEOUT_MS)

    async def delete_group(
        self, group: str, *, is_offset_deleted: bool = True, cluster: str | None = None
    ) -> None:
        """Delete a consumer group, and where it stood.

        Raises:
            BrokerNotFound: no broker is there.
        """
        header = DeleteGroup(group, clean_offset=is_offset_deleted)
        command = Command(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields=encode_fields(header))
        for address in (await self._masters(cluster)).values():
            await self._hub.ask(address, command, timeout_ms=_CHANGE_TIMEOUT_MS)

    async def groups(self, *, cluster: str | None = None) -> dict[str, GroupConfig]:
        """All consumer groups by name; where brokers differ, the last one's settings.

        Raises:
            BrokerNotFound: no broker is there.
        """
        found: dict[str, GroupConfig] = {}
        command = Command(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        for address in (await self._masters(cluster)).values():
            answer = await self._hub.ask(address, command)
            found.update(decode_group_table(answer.body).groups)
        return found

    async def set_request_mode(
        self,
        topic: str,
        group: str,
        mode: str,
        *,
        share_queues: int = 0,
        cluster: str | None = None,
    ) -> None:
        """Say how a group consumes a topic where its members let brokers share the queues out.

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
        config = RequestModeConfig(topic, group, mode, share_queues)
        command = Command(
            RequestCode.SET_MESSAGE_REQUEST_MODE, body=encode_request_mode(config)
        )
        for address in (await self._masters(cluster)).values():
            await self._hub.ask(address, command, timeout_ms=_CHANGE_TIMEOUT_MS)

    async def group_offsets(self, group: str, topic: str) -> dict[MessageQueue, int | None]:
        """Where a group stands in a topic: the next offset of each queue, None where unknown.

        Raises:
            TopicNotFound: the nameserver knows none.
        """
        return {
            queue: await self._offsets.committed(group, queue)
            for queue in (await self._hub.known(topic)).read_queues
        }

    async def group_progress(
        self, group: str, topic: str | None = None
    ) -> dict[MessageQueue, QueueProgress]:
        """How far a group is in a topic, or in all in which it has offsets, with times."""
        return await progress_of(self._hub, (await self._masters(None)).values(), group, topic)

    async def recall(self, handle: str) -> str:
        """Take back a message that waits for its time; its message id.

        Args:
            handle: `SendResult.recall_handle`; the broker must have recallMessageEnable.

        Raises:
            CodecError: it is no handle.
            TopicNotFound: the nameserver does not know the message's topic.
            BrokerNotFound: the message's broker is not there.
        """
        told = decode_recall_handle(handle)
        broker = (await self.route(told.topic)).broker(told.broker_name)
        if broker is None:
            raise BrokerNotFound(f"no broker {told.broker_name!r} has {told.topic!r}")
        request = encode_fields(RecallRequest(told.topic, handle))
        command = Command(RequestCode.RECALL_MESSAGE, fields=request)
        return (await self._hub.ask(_address(broker), command)).fields.get("msgId", "")

    async def consumer_connections(self, group: str) -> dict[str, ConsumerConnections]:
        """The members of a consumer group that each broker sees, by broker name.

        Raises:
            BrokerNotFound: no broker is there.
        """
        return await consumers_of(self._hub, await self._masters(None), group)

    async def producer_connections(self, group: str) -> dict[str, tuple[ClientConnection, ...]]:
        """The members of a producer group that each broker sees, by broker name.

        Raises:
            BrokerNotFound: no broker is there.
        """
        return await producers_of(self._hub, await self._masters(None), group)


def _address(broker: BrokerData) -> str:
    address = broker.master_or_any()
    if address is None:
        raise BrokerNotFound(f"the broker {broker.broker_name!r} has no address")
    return address
