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
from cometmq.codec.bodies.heartbeat import ConsumerPart, ProducerPart
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


class _GroupOfClients:
    """The clients of the proxy in a consumer group, or that produce to a topic, as one member of the group."""

    def __init__(self, part: ConsumerPart | ProducerPart) -> None:
        self.clients: dict[GrpcClient, ConsumerPart | ProducerPart] = {}
        self._latest = part

    @property
    def group(self) -> str:
        """The name of the group."""
        return self._latest.group

    def put(self, client: GrpcClient, part: ConsumerPart | ProducerPart) -> None:
        """Add a client, or replace its subscriptions."""
        self.clients[client] = self._latest = part

    def heartbeat_part(self) -> ConsumerPart | ProducerPart:
        """Return the part of a heartbeat; for consumers with the latest subscription of any of them to each topic."""
        if isinstance(self._latest, ProducerPart):
            return self._latest
        parts = [each for each in self.clients.values() if isinstance(each, ConsumerPart)]
        latest = {
            each.topic: each for part in (*parts, self._latest) for each in part.subscriptions
        }
        return replace(self._latest, subscriptions=tuple(latest.values()))

    def topics(self) -> list[str]:
        """Return an empty list, because the routes in use are refreshed anyway."""
        return []

    def take_request(self, _command: Command, _channel: Channel) -> bool:
        """Return False: of the requests of brokers, only checks are passed on (`ClusterMembers`)."""
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
        self._groups: dict[tuple[type, str], _GroupOfClients] = {}
        self._has_warned = False

    async def start(self) -> None:
        """Begin heartbeats to all brokers of the cluster, as far as a nameserver lists them."""
        member = ProducerMember(PROXY_GROUP)
        member.takers[RequestCode.CHECK_TRANSACTION_STATE] = self._take_check
        await self._instance.join(member, everywhere=True)

    def add(self, parts: Iterable[ConsumerPart | ProducerPart], client: GrpcClient) -> None:
        """Register a client in groups; brokers learn of new ones soon, and of changed subscriptions with the next heartbeat."""
        new: list[Member] = []
        for part in parts:
            group = self._groups.get((type(part), part.group))
            if group is None:
                if self._is_full():
                    continue
                group = self._groups[type(part), part.group] = _GroupOfClients(part)
                new.append(group)
            if client not in group.clients:
                client.on_close.append(partial(self._left, group))
            group.put(client, part)
        if new:
            self._tasks.spawn(self._instance.join(*new), "groups")

    def _is_full(self) -> bool:
        is_full = len(self._groups) >= GROUPS_MAX
        if is_full and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "brokers are not told of all groups of clients: this proxy has told them of %d already",
                GROUPS_MAX,
            )
        return is_full

    def _left(self, group: _GroupOfClients, client: ClientPeer) -> None:
        group.clients.pop(cast("GrpcClient", client), None)
        key = type(group.heartbeat_part()), group.group
        if not group.clients and self._groups.get(key) is group:
            del self._groups[key]
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
