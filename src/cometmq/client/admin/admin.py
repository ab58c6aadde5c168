"""The asyncio admin client: changes topics, groups and offsets of a cluster, and queries messages and connections.

    async with AsyncAdmin("127.0.0.1:9876") as admin:
        await admin.topics.create("orders", queues=8)

`cometmq.Admin` is the same for threads.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from cometmq.client.admin.absent import missing_brokers
from cometmq.client.admin.copies import ask_replicas
from cometmq.client.admin.group_offsets import GroupOffsetAdmin
from cometmq.client.admin.kv import check_kv_value
from cometmq.client.admin.queries import MessageQueries
from cometmq.client.admin.roles import Promotion, Roles
from cometmq.client.admin.states import group_not_found
from cometmq.client.admin.topics import AsyncTopicAdmin
from cometmq.client.api.asking import all_of, side_by_side
from cometmq.client.api.broker import BrokerApi
from cometmq.client.api.messages import MessageApi
from cometmq.client.api.offsets import OffsetApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.lifecycle import AsyncClient
from cometmq.client.results import Replica
from cometmq.client.settings import ClientSettings
from cometmq.codec.bodies.cluster import ClusterInfo
from cometmq.codec.bodies.connection import ClientConnection, ConsumerConnections
from cometmq.codec.bodies.stats import QueueProgress
from cometmq.codec.recall_handle import decode_recall_handle
from cometmq.model.errors import BrokerNotFound, GroupNotFound
from cometmq.model.group import GroupConfig
from cometmq.model.message import StoredMessage
from cometmq.model.names import check_group
from cometmq.model.namespace import NO_NAMESPACE
from cometmq.model.queue import MessageQueue
from cometmq.model.route import BrokerData
from cometmq.model.subscription import Subscription
from cometmq.model.text import in_quotes
from cometmq.model.topic import TopicConfig

Value = TypeVar("Value")
Config = TypeVar("Config", TopicConfig, GroupConfig)


class AsyncAdmin(AsyncClient):
    """Administers a cluster: topics, groups, routes, offsets, messages, connections.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        settings: Times. With a namespace, names are without it; `topics` and `groups` list only its own and the system's.
        instance: Shares the connections of another client, whose owner closes them.

    Raises:
        SettingsError: A nameserver address, or a setting for credentials or TLS in the environment, is invalid.
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
        """Return the name of a topic or group as brokers know it; raise ClientClosed if the client is not running."""
        self._check_running()
        return self._namespace.wrap(name)

    def _own(self, names: Iterable[str]) -> list[str]:
        """Return the names that belong to the namespace, without it, or to the system; without a namespace, all."""
        short = ((self._namespace.unwrap(name), name) for name in names)
        return [own for own, name in short if self._namespace.wrap(own) == name]

    def _short_configs(self, configs: Mapping[str, Config | None]) -> dict[str, Config]:
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

    @property
    def topics(self) -> AsyncTopicAdmin:
        """The topics of the cluster."""
        return AsyncTopicAdmin(self)

    # --- clusters

    async def cluster(self) -> ClusterInfo:
        """Return the clusters with their brokers that the nameserver knows."""
        return await self._live.nameserver_api.cluster()

    async def replicas(self) -> list[Replica]:
        """Return each member of each broker group, sorted by name and id, with its replication status or an error.

        A second broker that claims the id of a member has an `owner`; it is left out if it does not answer.
        """
        return await ask_replicas(self._live)

    async def change_settings(self, broker_name: str, values: Mapping[str, str]) -> None:
        """Change settings of a running master; a CometMQ broker changes all of them or none.

        Raises:
            BrokerNotFound: No such master is registered.
            BrokerRefused: The broker refuses, for example because a setting cannot be changed at run time; or it could not
                save the change, which is then effective until the next start.
        """
        address = await self._live.nameserver_api.member(broker_name)
        await self._brokers.change_settings(address, values)

    async def drain(self, broker_name: str) -> int:
        """Remove write permission from a broker's routes, so that producers avoid it; return the number of its topics.

        Its messages can still be consumed. This lasts until `undrain`, until a nameserver restarts, or until the broker
        returns after it was gone or registers changed topics. Raises BrokerNotFound if no such master is registered.
        """
        await self._live.nameserver_api.member(broker_name)
        return await self._live.nameserver_api.wipe_write_perm(broker_name)

    async def undrain(self, broker_name: str) -> int:
        """Make all of a broker's routes readable and writable; return the number of its topics, or raise BrokerNotFound."""
        await self._live.nameserver_api.member(broker_name)
        return await self._live.nameserver_api.add_write_perm(broker_name)

    async def kv_values(self, namespace: str) -> dict[str, str]:
        """Return the values of a namespace of the nameservers' key-value configuration by key; empty if it is unknown."""
        return await self._live.nameserver_api.kv_values(namespace)

    async def set_kv_value(self, namespace: str, key: str, value: str) -> None:
        """Set a value of the key-value configuration at every nameserver.

        Raises:
            SettingsError: The namespace or the key is empty; or the namespace is ORDER_TOPIC_CONFIG, and the value is not
                "broker-a:4;broker-b:4".
            NetError: A nameserver did not answer; others may have the value.
        """
        check_kv_value(namespace, key, value)
        await self._live.nameserver_api.set_kv_value(namespace, key, value)

    async def delete_kv_value(self, namespace: str, key: str) -> None:
        """Delete a value of the key-value configuration, if there is one, at every nameserver."""
        await self._live.nameserver_api.delete_kv_value(namespace, key)

    async def promotion(
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
        return await Roles(self._live).plan(broker_name, broker_id, role=role)

    async def promote(
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
        roles = Roles(self._live)
        plan = await roles.plan(broker_name, broker_id, role=role)
        await roles.promote(plan, is_forced=force)
        return plan

    async def demote(
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
        changed = await Roles(self._live).demote(
            broker_name, address=address, successor=successor
        )
        return changed.broker_id

    async def _each_master(
        self,
        ask: Callable[[str], Awaitable[Value]],
        cluster: str | None,
        broker: str | None = None,
    ) -> dict[str, Value]:
        if broker is None:
            masters = await self._live.nameserver_api.masters(cluster)
        else:
            masters = {broker: await self._live.nameserver_api.member(broker)}
        return dict(
            zip(masters, all_of(await side_by_side(ask, masters.values())), strict=True)
        )

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
        found = await self._queries.by_key(
            self._full(topic), key, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms
        )

        return [*map(self._short_message, found)]

    async def message_by_id(self, topic: str, message_id: str) -> StoredMessage | None:
        """Return the message with an id that its producer assigned, the newest one if there are several, or None.

        Raises TopicNotFound if the nameserver has no route of the topic.
        """
        topic = self._full(topic)
        found = await self._queries.by_unique_id(topic, message_id)
        return found and self._short_message(found)

    async def view_message(self, offset_message_id: str) -> StoredMessage:
        """Return the message at the place that an offset message id contains: a broker and a physical offset.

        Raises BrokerRefused if there is none, BrokerNotFound for an unregistered address, CodecError for a malformed id.
        """
        self._check_running()
        return self._short_message(await self._queries.view(offset_message_id))

    # --- groups

    async def create_group(self, group: GroupConfig, *, cluster: str | None = None) -> None:
        """Create a consumer group, or change its settings, at every master of the cluster, or of all clusters.

        Raises RequestError if the name is invalid, and BrokerNotFound if there is no such master.
        """
        check_group(group.name)
        group = replace(group, name=self._full(group.name))
        await self._each_master(
            lambda address: self._brokers.create_group(address, group), cluster
        )

    async def change_group(
        self, group: str, changes: Mapping[str, Any]
    ) -> dict[str, GroupConfig]:
        """Change fields of `GroupConfig`, except the name, at each master that has a group; return the results by broker name.

        Raises BrokerNotFound without a master, GroupNotFound if none has the group, SettingsError for another field.
        """
        name, group = group, self._full(group)
        changed = await self._each_master(
            lambda address: self._brokers.change_group(address, group, changes), None
        )
        if not any(changed.values()):
            raise GroupNotFound(
                f"no broker has the settings of group {in_quotes(name)}; create it with cometmq group create or "
                "Admin.create_group"
            )
        return self._short_configs(changed)

    async def delete_group(
        self, group: str, *, delete_offsets: bool = True, cluster: str | None = None
    ) -> None:
        """Delete a consumer group and, unless `delete_offsets` is False, its offsets (in CometMQ also its own retry topics).

        Raises BrokerNotFound if no master is registered.
        """
        group = self._full(group)
        await self._each_master(
            lambda address: self._brokers.delete_group(address, group, offsets=delete_offsets),
            cluster,
        )

    async def groups(self, *, cluster: str | None = None) -> dict[str, GroupConfig]:
        """Return all consumer groups of the namespace by name; if masters differ, with the settings of the last one.

        Raises BrokerNotFound if no master is registered.
        """
        found: dict[str, GroupConfig] = {}
        for groups in (await self._each_master(self._brokers.groups, cluster)).values():
            found.update(groups)
        return {
            name: replace(found[self._namespace.wrap(name)], name=name)
            for name in self._own(found)
        }

    async def group_offsets(self, group: str, topic: str) -> dict[MessageQueue, int | None]:
        """Return a group's committed offset in each queue of a topic; without one None, or 0 in a queue that counts as new.

        Raises TopicNotFound if the nameserver has no route of the topic.
        """
        queues = (await self._live.known(self._full(topic))).read_queues
        found = await self._offsets.committed_offsets(self._full(group), queues)
        return self._short_queues(dict(zip(queues, all_of(found.values()), strict=True)))

    async def group_progress(
        self, group: str, topic: str | None = None
    ) -> dict[MessageQueue, QueueProgress]:
        """Return the offsets, lag and times of a group by queue, as brokers report them, of a topic or of all its topics.

        A broker group without a master is answered for by its slave of the lowest id. Raises BrokerNotFound without any
        broker, or if the nameserver remembers a broker that left and may have more queues; `Inspector.group` then returns
        what is known. Queues of brokers that RocketMQ's nameserver has forgotten are missing in the result.
        """
        group = self._full(group)
        topic = topic and self._full(topic)
        for broker in await missing_brokers(self._live):
            if topic is None or broker.has_any([topic]):
                raise BrokerNotFound(
                    f"the offsets of group {in_quotes(group)} are not known for all queues: {broker}; start that "
                    "broker, or see what is known (cometmq group show, Inspector.group)"
                )
        api = self._live.nameserver_api
        addresses = await api.readable_brokers()
        if not addresses:
            addresses = await api.masters()  # Raises an error that no broker is registered.
        answers = await side_by_side(
            lambda address: self._brokers.progress(address, group, topic), addresses.values()
        )
        return self._short_queues(
            {queue: each for queues in all_of(answers) for queue, each in queues.items()}
        )

    async def lag(self, group: str, topic: str | None = None) -> dict[MessageQueue, int]:
        """Return a group's number of unconsumed messages by queue, as in `group_progress`, also for queues without an offset.

        Args:
            group: The consumer group.
            topic: Topic of the queues; None: all topics in which it has offsets, or (not with Java brokers) that its
                members subscribe to.

        Raises:
            GroupNotFound: No broker knows the group; a misspelt group thus does not seem to be without a backlog.
            BrokerNotFound: No broker is registered, or one that may have more queues has left.
        """
        progress = await self.group_progress(group, topic)
        if not progress and self._namespace.unwrap(group) not in await self.groups():
            raise group_not_found(group)
        return {queue: each.lag for queue, each in progress.items()}

    async def reset_offsets(
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
        return self._short_queues(
            await self._moves.reset(self._full(group), self._full(topic), timestamp_ms)
        )

    async def offsets_at(self, topic: str, timestamp_ms: int | None) -> dict[MessageQueue, int]:
        """Return the offsets to which `reset_offsets` would move a group, by queue, without moving it.

        Raises TopicNotFound if the nameserver has no route of the topic.
        """
        return self._short_queues(await self._moves.at(self._full(topic), timestamp_ms))

    async def set_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Move a group to given offsets (the next to consume, by queue); connected members continue there.

        Raises:
            TopicNotFound: The nameserver has no route of a topic.
            RequestError: A queue or offset does not exist, or a broker cannot move members; others may have moved theirs.
        """
        await self._moves.put(
            self._full(group),
            {self._namespace.wrap_queue(queue): each for queue, each in offsets.items()},
        )

    async def recall(self, handle: str) -> str:
        """Cancel a message that waits for its delivery time, and return the message id in the handle.

        Args:
            handle: `SendResult.recall_handle`. Whether the message still exists is not checked.

        Raises:
            CodecError: The handle is malformed.
            TopicNotFound: The nameserver has no route of the message's topic.
            BrokerNotFound: The topic's route does not have the message's broker.
            BrokerRefused: The broker refuses, for example as recallMessageEnable is false or the message is due.
        """
        told = decode_recall_handle(handle)
        broker = (await self._live.nameserver_api.route(told.topic)).broker(told.broker_name)
        if broker is None:
            raise BrokerNotFound(
                f"topic {in_quotes(told.topic)} has no broker {in_quotes(told.broker_name)}; is the recall handle "
                "of this cluster?"
            )
        return await self._messages.recall(_address(broker), told.topic, handle)

    async def consumer_connections(self, group: str) -> dict[str, ConsumerConnections]:
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

    async def producer_connections(self, group: str) -> dict[str, tuple[ClientConnection, ...]]:
        """Return the members of a producer group that are connected to each master, by broker name.

        Masters without a member are left out. Raises BrokerNotFound if no master is registered.
        """
        group = self._full(group)
        seen = await self._each_master(
            lambda address: self._brokers.producer_connections(address, group), None
        )
        return {name: members for name, members in seen.items() if members}


def _address(broker: BrokerData) -> str:
    address = broker.master_or_any()
    if address is None:
        raise BrokerNotFound(
            f"broker {in_quotes(broker.broker_name)} has no registered address; start it"
        )
    return address
