"""The clients of the proxy as members of groups at brokers: one member for each group, whatever number of clients it has.

Brokers ask the producers of a topic about transactions that were not ended; its group is the topic's name.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import count
from typing import cast

from cometmq.broker.tables.client_peer import ClientPeer
from cometmq.client.connection.instance import ClientInstance, Member
from cometmq.client.producer.producer_member import ProducerMember
from cometmq.codec.bodies.heartbeat import ConsumerPart, Heartbeat
from cometmq.codec.record import decode_record
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.model.errors import CodecError
from cometmq.model.properties import PRODUCER_GROUP
from cometmq.net.channel import Channel
from cometmq.net.tasks import Tasks
from cometmq.proxy.services.clients import GrpcClient

_log = logging.getLogger(__name__)

# Groups in the proxy's heartbeats; brokers refuse those with more than 1,000.
GROUPS_MAX = 900
PROXY_GROUP = "rmq-proxy-producer"


class _GroupOfConsumers:
    """The consumers of a group that use this proxy, as one member of the group."""

    def __init__(self, part: ConsumerPart) -> None:
        self.clients: dict[GrpcClient, ConsumerPart] = {}
        self._latest = part

    @property
    def group(self) -> str:
        """The name of the group."""
        return self._latest.group

    def put(self, client: GrpcClient, part: ConsumerPart) -> None:
        """Add a consumer, or replace its subscriptions."""
        self.clients[client] = self._latest = part

    def heartbeat_part(self) -> ConsumerPart:
        """Return the part of a heartbeat with the subscriptions of all consumers; the latest one to each topic."""
        parts = (*self.clients.values(), self._latest)
        latest = {each.topic: each for part in parts for each in part.subscriptions}
        return replace(self._latest, subscriptions=tuple(latest.values()))

    def topics(self) -> list[str]:
        """Return an empty list, because the routes in use are refreshed anyway."""
        return []

    def take_request(self, _command: Command, _channel: Channel) -> bool:
        """Return False: the requests of brokers to consumers are not passed on."""
        return False


class ClusterMembers:
    """The groups of all clients, which brokers learn from the heartbeats of the proxy."""

    def __init__(
        self,
        instance: ClientInstance,
        clients: Callable[[], Iterable[GrpcClient]],
        tasks: Tasks,
    ) -> None:
        """`clients` returns those that the proxy knows."""
        self._instance = instance
        self._clients = clients
        self._tasks = tasks
        self._turn = count()
        self._consumers: dict[str, _GroupOfConsumers] = {}
        self._producers: dict[str, ProducerMember] = {}

    async def start(self) -> None:
        """Begin heartbeats to all brokers of the cluster, as far as a nameserver lists them."""
        member = ProducerMember(PROXY_GROUP)
        member.takers[RequestCode.CHECK_TRANSACTION_STATE] = self._take_check
        await self._instance.join(member, everywhere=True)

    def add(self, heartbeat: Heartbeat, client: GrpcClient) -> None:
        """Register a client as a consumer of its groups and a producer of its topics; brokers learn new groups soon."""
        new: list[Member] = []
        for part in heartbeat.consumers:
            group = self._consumers.get(part.group)
            if group is None:
                if self._is_full:
                    continue
                group = self._consumers[part.group] = _GroupOfConsumers(part)
                new.append(group)
            if client not in group.clients:
                client.on_close.append(partial(self._left, group))
            group.put(client, part)
        for producer in heartbeat.producers:
            if producer.group not in self._producers and not self._is_full:
                self._producers[producer.group] = ProducerMember(producer.group)
                new.append(self._producers[producer.group])
        if new:
            self._tasks.spawn(self._instance.join(*new), "groups")

    @property
    def _is_full(self) -> bool:
        is_full = len(self._consumers) + len(self._producers) >= GROUPS_MAX
        if is_full:
            _log.warning(
                "clients of more than %d groups use this proxy; brokers do not learn of the others", GROUPS_MAX
            )  # fmt: skip
        return is_full

    def _left(self, group: _GroupOfConsumers, client: ClientPeer) -> None:
        group.clients.pop(cast("GrpcClient", client), None)
        if not group.clients and self._consumers.get(group.group) is group:
            del self._consumers[group.group]
            self._tasks.spawn(self._instance.leave(group), "groups")

    def _take_check(self, command: Command, channel: Channel) -> bool:
        """Pass a broker's question about a half message on to a producer of its topic that has a stream of telemetry."""
        try:
            topic = decode_record(command.body).properties().get(PRODUCER_GROUP, "")
        except CodecError:
            return False
        asked = [
            each
            for each in self._clients()
            if topic in each.topics and each.stream is not None and not each.stream.is_closed
        ]
        if not asked:
            return False
        # Brokers before 5.1 do not name themselves.
        names = {address: name for name, address in self._instance.routes.masters.items()}
        fields = {"bname": names.get(channel.address, ""), **command.fields}
        asked[next(self._turn) % len(asked)].notify(command.code, fields, command.body)
        return True
