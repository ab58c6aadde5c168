"""The asyncio admin client: changes topics, groups and offsets of a cluster, and queries messages and connections.

    async with AsyncAdmin("127.0.0.1:9876") as admin:
        await admin.topics.create("orders", queues=8)

`cometmq.Admin` is the same for threads.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from cometmq.client.admin.copies import ask_replicas
from cometmq.client.admin.groups import AsyncGroupAdmin
from cometmq.client.admin.kv import check_kv_value
from cometmq.client.admin.offsets import AsyncOffsetAdmin
from cometmq.client.admin.queries import MessageQueries
from cometmq.client.admin.roles import Promotion, Roles
from cometmq.client.admin.topics import AsyncTopicAdmin
from cometmq.client.api.asking import all_of, side_by_side
from cometmq.client.api.broker import BrokerApi
from cometmq.client.api.messages import MessageApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.lifecycle import AsyncClient
from cometmq.client.results import Replica
from cometmq.client.settings import ClientSettings
from cometmq.codec.bodies.cluster import ClusterInfo
from cometmq.codec.recall_handle import decode_recall_handle
from cometmq.model.errors import BrokerNotFound
from cometmq.model.group import GroupConfig
from cometmq.model.message import StoredMessage
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
        self._brokers = BrokerApi(self._instance)
        self._messages = MessageApi(self._instance)
        self._queries = MessageQueries(self._instance)

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

    @property
    def groups(self) -> AsyncGroupAdmin:
        """The consumer groups of the cluster."""
        return AsyncGroupAdmin(self)

    @property
    def offsets(self) -> AsyncOffsetAdmin:
        """The offsets of consumer groups."""
        return AsyncOffsetAdmin(self)

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


def _address(broker: BrokerData) -> str:
    address = broker.master_or_any()
    if address is None:
        raise BrokerNotFound(
            f"broker {in_quotes(broker.broker_name)} has no registered address; start it"
        )
    return address
