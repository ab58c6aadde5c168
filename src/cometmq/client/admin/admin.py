"""Looks after a cluster: topics, groups, routes, offsets, connections.

    async with AsyncAdmin("127.0.0.1:9876") as admin:
        await admin.create_topic("orders", queues=8)

`cometmq.client.Admin` is the same for threads.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from cometmq.client.admin.absent import missing_brokers
from cometmq.client.admin.copies import ask_replicas
from cometmq.client.admin.group_offsets import GroupOffsetAdmin
from cometmq.client.admin.queries import MessageQueries
from cometmq.client.admin.states import group_not_found
from cometmq.client.api.asking import all_of, side_by_side
from cometmq.client.api.broker import BrokerApi
from cometmq.client.api.messages import MessageApi
from cometmq.client.api.offsets import OffsetApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.lifecycle import AsyncClient
from cometmq.client.results import QueueRange, Replica
from cometmq.client.settings import ClientSettings
from cometmq.codec.bodies.assignment import RequestModeConfig
from cometmq.codec.bodies.cluster import ClusterInfo
from cometmq.codec.bodies.connection import ClientConnection, ConsumerConnections
from cometmq.codec.bodies.stats import QueueProgress
from cometmq.codec.recall_handle import decode_recall_handle
from cometmq.model.errors import BrokerNotFound, GroupNotFound, TopicNotFound
from cometmq.model.group import GroupConfig
from cometmq.model.message import StoredMessage
from cometmq.model.names import check_group, check_topic
from cometmq.model.namespace import NO_NAMESPACE
from cometmq.model.queue import MessageQueue
from cometmq.model.route import BrokerData, TopicRoute
from cometmq.model.subscription import Subscription
from cometmq.model.topic import TopicConfig

Value = TypeVar("Value")
Config = TypeVar("Config", TopicConfig, GroupConfig)


class AsyncAdmin(AsyncClient):
    """Administers a cluster: topics, groups, routes, offsets, messages, connections.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        settings: times; with a namespace names are short here, and topics and groups of others are not seen.
        instance: share another client's connections; its owner closes it.

    Raises:
        SettingsError: a nameserver address cannot be read.
    """

    def __init__(
        self,
        nameservers: str | None = None,
        *,
        settings: ClientSettings | None = None,
        instance: ClientInstance | None = None,
    ) -> None:
        super().__init__(nameservers, settings, instance)
        self._offsets = OffsetApi(self._instance)
        self._brokers = BrokerApi(self._instance)
        self._messages = MessageApi(self._instance)
        self._queries = MessageQueries(self._instance)
        self._moves = GroupOffsetAdmin(self._instance)

    # --- names

    def _full(self, name: str) -> str:
        """The name of a topic or group as brokers know it.

        Raises:
            ClientClosed: not started, or closed.
        """
        self._check_running()
        return self._namespace.wrap(name)

    def _own(self, names: Iterable[str]) -> list[str]:
        """The short names of those that belong to the namespace or to the system."""
        short = ((self._namespace.unwrap(name), name) for name in names)
        return [own for own, name in short if self._namespace.wrap(own) == name]

    def _short_configs(self, configs: Mapping[str, Config | None]) -> dict[str, Config]:
        """Settings with their short name, of the brokers that have any."""
        return {
            broker: replace(config, name=self._namespace.unwrap(config.name))
            for broker, config in configs.items()
            if config is not None
        }

    def _short_queues(self, found: Mapping[MessageQueue, Value]) -> dict[MessageQueue, Value]:
        return {self._namespace.unwrap_queue(queue): each for queue, each in found.items()}

    def _short_message(self, message: StoredMessage) -> StoredMessage:
        if self._namespace is NO_NAMESPACE:
            return message
        return replace(message, queue=self._namespace.unwrap_queue(message.queue))

    def _short_subscriptions(
        self, found: Mapping[str, Subscription]
    ) -> dict[str, Subscription]:
        short = self._namespace.unwrap
        return {
            short(topic): replace(each, topic=short(topic)) for topic, each in found.items()
        }

    # --- clusters

    async def cluster(self) -> ClusterInfo:
        """All clusters that the nameserver knows, with their brokers."""
        return await self._live.nameserver_api.cluster()

    async def route(self, topic: str) -> TopicRoute:
        """Brokers and queues of a topic.

        Raises:
            TopicNotFound: the nameserver knows none.
        """
        return await self._live.nameserver_api.route(self._full(topic))

    async def replicas(self) -> list[Replica]:
        """Each member of each broker group, masters first, and how far its copy of the log is; all are asked side by side.

        A broker that claims the id of another member is one more, with an `error`.
        """
        return await ask_replicas(self._live)

    async def change_settings(self, broker_name: str, values: Mapping[str, str]) -> None:
        """Change settings of a running master: all of them or none.

        Raises:
            BrokerNotFound: no such master is registered.
            BrokerRefused: one of them may not be changed so, or has no such value.
        """
        address = await self._live.nameserver_api.member(broker_name)
        await self._brokers.change_settings(address, values)

    async def drain(self, broker_name: str) -> int:
        """Stop sends to a broker by taking write permission from its routes; what it has can be consumed.

        Routes say so until `undrain`, until the nameservers start again, or until the broker registers changed topics.

        Returns:
            Of how many topics.

        Raises:
            BrokerNotFound: no such master is registered.
        """
        await self._live.nameserver_api.member(broker_name)
        return await self._live.nameserver_api.wipe_write_perm(broker_name)

    async def undrain(self, broker_name: str) -> int:
        """Let messages be sent again to a broker that was drained; the number of its topics.

        Raises:
            BrokerNotFound: no such master is registered.
        """
        await self._live.nameserver_api.member(broker_name)
        return await self._live.nameserver_api.add_write_perm(broker_name)

    async def _each_master(
        self, ask: Callable[[str], Awaitable[Value]], cluster: str | None
    ) -> dict[str, Value]:
        """Ask each master of a cluster, or of all, side by side; the answers by broker name."""
        masters = await self._live.nameserver_api.masters(cluster)
        return dict(
            zip(masters, all_of(await side_by_side(ask, masters.values())), strict=True)
        )

    # --- topics

    async def topics(self) -> list[str]:
        """Names of all topics of the namespace, sorted, the system's among them."""
        return self._own(await self._live.nameserver_api.topics())

    async def create_topic(
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
        )
        self._live.routes.drop(topic)
        return self._short_configs(changed)

    async def change_topic(
        self, topic: str, changes: Mapping[str, Any]
    ) -> dict[str, TopicConfig]:
        """Change fields of `TopicConfig`, but attributes, at each master that has a topic, and leave the others as they are there.

        Returns:
            Its settings now, by broker name.

        Raises:
            BrokerNotFound: no broker is there.
            TopicNotFound: no broker has it.
        """
        name, topic = topic, self._full(topic)
        changed = await self._each_master(
            lambda address: self._brokers.change_topic(address, topic, changes), None
        )
        if not any(changed.values()):
            raise TopicNotFound(
                f"no broker has the topic {name!r}; cometmq topic create, or Admin.create_topic, makes it"
            )
        self._live.routes.drop(topic)
        return self._short_configs(changed)

    async def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic and all its messages, at the brokers and then at every nameserver.

        Raises:
            BrokerNotFound: no broker is there.
        """
        topic = self._full(topic)
        await self._each_master(
            lambda address: self._brokers.delete_topic(address, topic), cluster
        )
        await self._live.nameserver_api.delete_topic(topic, cluster)
        self._live.routes.drop(topic)

    async def topic_configs(self, topic: str) -> dict[str, TopicConfig]:
        """A topic's settings, by broker name.

        Raises:
            TopicNotFound: the nameserver knows none.
        """
        topic = self._full(topic)
        brokers = (await self.route(topic)).brokers
        configs = all_of(
            await side_by_side(
                lambda address: self._brokers.topic_config(address, topic),
                map(_address, brokers),
            )
        )
        names = (broker.broker_name for broker in brokers)
        return self._short_configs(dict(zip(names, configs, strict=True)))

    async def topic_offsets(self, topic: str) -> dict[MessageQueue, QueueRange]:
        """The smallest and the next offset of each queue of a topic.

        Raises:
            TopicNotFound: the nameserver knows none.
        """
        queues = (await self._live.known(self._full(topic))).read_queues
        found = await self._offsets.bounds(queues)
        return {
            self._namespace.unwrap_queue(queue): QueueRange(*bounds)
            for queue, bounds in zip(queues, all_of(found.values()), strict=True)
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
        found = await self._queries.by_key(
            self._full(topic), key, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms
        )

        return [*map(self._short_message, found)]

    async def message_by_id(self, topic: str, message_id: str) -> StoredMessage | None:
        """The message with the id that its producer gave it; the newest of several.

        Raises:
            TopicNotFound: the nameserver knows none.
        """
        topic = self._full(topic)
        found = await self._queries.by_unique_id(topic, message_id)
        return found and self._short_message(found)

    async def view_message(self, offset_message_id: str) -> StoredMessage:
        """The message that lies where an offset message id says: at that broker, at that place.

        Raises:
            BrokerRefused: there is none.
        """
        self._check_running()
        return self._short_message(await self._queries.view(offset_message_id))

    # --- groups

    async def create_group(self, group: GroupConfig, *, cluster: str | None = None) -> None:
        """Make a consumer group, or change it.

        Raises:
            RequestError: the name is illegal.
            BrokerNotFound: no broker is there.
        """
        check_group(group.name)
        group = replace(group, name=self._full(group.name))
        await self._each_master(
            lambda address: self._brokers.create_group(address, group), cluster
        )

    async def change_group(
        self, group: str, changes: Mapping[str, Any]
    ) -> dict[str, GroupConfig]:
        """Change fields of `GroupConfig` at each master that has a group, and leave the others as they are there.

        Returns:
            Its settings now, by broker name.

        Raises:
            BrokerNotFound: no broker is there.
            GroupNotFound: no broker has it.
        """
        name, group = group, self._full(group)
        changed = await self._each_master(
            lambda address: self._brokers.change_group(address, group, changes), None
        )
        if not any(changed.values()):
            raise GroupNotFound(
                f"no broker has settings of the group {name!r}; cometmq group create, or Admin.create_group, makes them"
            )
        return self._short_configs(changed)

    async def delete_group(
        self, group: str, *, delete_offsets: bool = True, cluster: str | None = None
    ) -> None:
        """Delete a consumer group and its offsets.

        Raises:
            BrokerNotFound: no broker is there.
        """
        group = self._full(group)
        await self._each_master(
            lambda address: self._brokers.delete_group(address, group, offsets=delete_offsets),
            cluster,
        )

    async def groups(self, *, cluster: str | None = None) -> dict[str, GroupConfig]:
        """All consumer groups of the namespace by name; where brokers differ, the last one's settings.

        Raises:
            BrokerNotFound: no broker is there.
        """
        found: dict[str, GroupConfig] = {}
        for groups in (await self._each_master(self._brokers.groups, cluster)).values():
            found.update(groups)
        return {
            name: replace(found[self._namespace.wrap(name)], name=name)
            for name in self._own(found)
        }

    async def set_request_mode(
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
        config = RequestModeConfig(self._full(topic), self._full(group), mode, share_queues)
        await self._each_master(
            lambda address: self._brokers.set_request_mode(address, config), cluster
        )

    async def group_offsets(self, group: str, topic: str) -> dict[MessageQueue, int | None]:
        """The next offset that a group consumes in each queue of a topic; None where it has none.

        Raises:
            TopicNotFound: the nameserver knows none.
        """
        queues = (await self._live.known(self._full(topic))).read_queues
        found = await self._offsets.committed_offsets(self._full(group), queues)
        return self._short_queues(dict(zip(queues, all_of(found.values()), strict=True)))

    async def group_progress(
        self, group: str, topic: str | None = None
    ) -> dict[MessageQueue, QueueProgress]:
        """The offsets, lag and times of a group, by queue of a topic or of all that it consumes.

        Raises:
            BrokerNotFound: A broker that may have more queues has left; `Inspector.group` gives what is known.
        """
        group = self._full(group)
        topic = topic and self._full(topic)
        for broker in await missing_brokers(self._live):
            if topic is None or broker.has_any([topic]):
                raise BrokerNotFound(
                    f"how far {group!r} is, is not known of all queues: {broker}; start it again, or look at what "
                    "is known (cometmq group show, Inspector.group)"
                )
        answers = await self._each_master(
            lambda address: self._brokers.progress(address, group, topic), None
        )
        return self._short_queues(
            {queue: each for queues in answers.values() for queue, each in queues.items()}
        )

    async def lag(self, group: str, topic: str | None = None) -> dict[MessageQueue, int]:
        """Messages that a group has not consumed yet, by queue, those without an offset among them.

        Args:
            group: the consumer group.
            topic: of the queues; None: all topics that its members want, or in which it has offsets.

        Raises:
            GroupNotFound: no broker knows it, so that a misspelt group is not one without a backlog.
            BrokerNotFound: no broker is there, or one has left that may have more queues: `Inspector.group` gives what is known.
        """
        progress = await self.group_progress(group, topic)
        if not progress and self._namespace.unwrap(group) not in await self.groups():
            raise group_not_found(group)
        return {queue: each.lag for queue, each in progress.items()}

    async def reset_offsets(
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
        return self._short_queues(
            await self._moves.reset(self._full(group), self._full(topic), timestamp_ms)
        )

    async def offsets_at(self, topic: str, timestamp_ms: int | None) -> dict[MessageQueue, int]:
        """The offsets to which `reset_offsets` would move a group, by queue; nothing is moved.

        Raises:
            TopicNotFound: the nameserver knows none.
        """
        return self._short_queues(await self._moves.at(self._full(topic), timestamp_ms))

    async def set_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Move a group to these offsets; its members are sent there.

        Args:
            group: the consumer group.
            offsets: the next offset to consume, by queue.

        Raises:
            TopicNotFound: the nameserver knows none.
            RequestError: a queue that is not there, an offset that it does not have, or members that their broker
                cannot move to an offset: then nothing was moved at that broker.
        """
        await self._moves.put(
            self._full(group),
            {self._namespace.wrap_queue(queue): each for queue, each in offsets.items()},
        )

    async def recall(self, handle: str) -> str:
        """Take back a message that waits for its time; gives its message id.

        Args:
            handle: `SendResult.recall_handle`; the broker must have recallMessageEnable.

        Raises:
            CodecError: it is no handle.
            TopicNotFound: the nameserver does not know the message's topic.
            BrokerNotFound: the message's broker is not there.
        """
        told = decode_recall_handle(handle)
        broker = (await self._live.nameserver_api.route(told.topic)).broker(told.broker_name)
        if broker is None:
            raise BrokerNotFound(f"no broker {told.broker_name!r} has {told.topic!r}")
        return await self._messages.recall(_address(broker), told.topic, handle)

    async def consumer_connections(self, group: str) -> dict[str, ConsumerConnections]:
        """The members of a consumer group that each broker sees, by broker name.

        Raises:
            BrokerNotFound: no broker is there.
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

    async def producer_connections(self, group: str) -> dict[str, tuple[ClientConnection, ...]]:
        """The members of a producer group that each broker sees, by broker name.

        Raises:
            BrokerNotFound: no broker is there.
        """
        group = self._full(group)
        return await self._each_master(
            lambda address: self._brokers.producer_connections(address, group), None
        )


def _address(broker: BrokerData) -> str:
    address = broker.master_or_any()
    if address is None:
        raise BrokerNotFound(f"the broker {broker.broker_name!r} has no address")
    return address
