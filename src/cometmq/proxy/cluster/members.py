"""The clients of the proxy as members of groups at brokers: one member for each group, whatever number of clients it has.

Brokers ask the producers of a topic about transactions that were not ended; its group is the topic's name.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from typing import cast

from cometmq.broker.tables.client_peer import ClientPeer
from cometmq.client.connection.instance import ClientInstance, Member
from cometmq.client.producer.producer_member import ProducerMember
from cometmq.codec import fastjson
from cometmq.codec.bodies.heartbeat import ConsumerPart, ProducerPart, subscription_json
from cometmq.codec.bodies.json_object import REQUEST_PARTS_MAX, request_share
from cometmq.codec.record import decode_record
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.model.errors import CodecError
from cometmq.model.properties import PRODUCER_GROUP
from cometmq.model.subscription import Subscription
from cometmq.net.channel import Channel
from cometmq.net.tasks import Tasks
from cometmq.proxy.services.clients import GrpcClient

_log = logging.getLogger(__name__)

# Consumer groups in the proxy's heartbeats, and producer groups; brokers refuse a heartbeat with more than 1,000.
GROUPS_MAX = 900
PROXY_GROUP = "rmq-proxy-producer"
# What the subscriptions of all groups may take of a heartbeat (`request_share`); its lists and 900 groups take the rest.
SUBSCRIPTIONS_SHARE = REQUEST_PARTS_MAX - 2 * GROUPS_MAX - 16


class _Room:
    """Space of heartbeats that is left for subscriptions, which the groups take and give back, in marks."""

    def __init__(self) -> None:
        self.left = SUBSCRIPTIONS_SHARE
        self._has_warned = False

    def take(self, subscription: Subscription) -> int:
        """Return the share of a subscription, which is taken; 0 if there is not enough."""
        share = request_share(fastjson.dumps(subscription_json(subscription)))
        if share <= self.left:
            self.left -= share
            return share
        if not self._has_warned:
            self._has_warned = True
            _log.warning(
                "brokers are not told of all subscriptions of clients: those of the groups together are too large"
            )
        return 0


class _GroupOfClients:
    """The clients of the proxy in a consumer group, or that produce to a topic, as one member of the group."""

    def __init__(self, part: ConsumerPart | ProducerPart, room: _Room) -> None:
        self.clients: dict[GrpcClient, ConsumerPart | ProducerPart] = {}
        self.kind = type(part)
        self._latest = part
        self._room = room
        self._taken = 0
        self._told: ConsumerPart | ProducerPart | None = None

    @property
    def group(self) -> str:
        """The name of the group."""
        return self._latest.group

    def put(self, client: GrpcClient, part: ConsumerPart | ProducerPart) -> None:
        """Add a client, or replace its subscriptions."""
        if self.clients.get(client) != part:
            self._told = None
        self.clients[client] = self._latest = part

    def remove(self, client: GrpcClient) -> None:
        """Remove a client; without any, the group's subscriptions take no room of heartbeats."""
        self.clients.pop(client, None)
        self._told = None
        if not self.clients:
            self._latest = self.kind(self.group)  # `leave` asks for its part once more.
            self._give_back()

    def _give_back(self) -> None:
        self._room.left += self._taken
        self._taken = 0

    def heartbeat_part(self) -> ConsumerPart | ProducerPart:
        """Return the part of a heartbeat; for consumers with the latest subscription of any of them to each topic.

        From the first for which heartbeats have no room on, subscriptions are left out: a group's name alone says who is there.
        """
        if self._told is None:
            self._told = self._combined()
        return self._told

    def _combined(self) -> ConsumerPart | ProducerPart:
        if isinstance(self._latest, ProducerPart):
            return self._latest
        parts = [
            each
            for each in (self._latest, *reversed(self.clients.values()))
            if isinstance(each, ConsumerPart)
        ]
        self._give_back()
        told: dict[str, Subscription] = {}
        for each in (each for part in parts for each in part.subscriptions):
            if each.topic in told:
                continue
            share = self._room.take(each)
            if not share:
                break  # There may be very many.
            self._taken += share
            told[each.topic] = each
        return replace(self._latest, subscriptions=tuple(told.values()))

    def topics(self) -> list[str]:
        """Return an empty list, because the routes in use are refreshed anyway."""
        return []

    def take_request(self, _command: Command, _channel: Channel) -> bool:
        """Return False: of the requests of brokers, only checks are passed on (`ClusterMembers`)."""
        return False


class ClusterMembers:
    """The groups of all clients, which brokers learn from the heartbeats of the proxy."""

    def __init__(self, instance: ClientInstance, tasks: Tasks) -> None:
        self._instance = instance
        self._tasks = tasks
        self._turn = count()
        self._room = _Room()
        self._groups: dict[type, dict[str, _GroupOfClients]] = {
            ConsumerPart: {}, ProducerPart: {},
        }  # fmt: skip
        # Groups of which brokers learn with the next heartbeat, and whether one is being sent.
        self._new: list[Member] = []
        self._is_joining = False
        self._has_warned = False

    async def start(self) -> None:
        """Begin heartbeats to all brokers of the cluster, as far as a nameserver lists them."""
        member = ProducerMember(PROXY_GROUP)
        member.takers[RequestCode.CHECK_TRANSACTION_STATE] = self._take_check
        await self._instance.join(member, everywhere=True)

    def add(self, parts: Iterable[ConsumerPart | ProducerPart], client: GrpcClient) -> None:
        """Register a client in groups; brokers learn of new ones soon, and of changed subscriptions with the next heartbeat."""
        for part in parts:
            groups = self._groups[type(part)]
            group = groups.get(part.group)
            if group is None:
                if self._is_full(groups):
                    continue
                group = groups[part.group] = _GroupOfClients(part, self._room)
                self._new.append(group)
            if client not in group.clients:
                client.on_close.append(partial(self._left, group))
            group.put(client, part)
        if self._new and not self._is_joining:
            self._is_joining = True
            self._tasks.spawn(self._join(), "groups")

    async def _join(self) -> None:
        """Announce new groups, with one heartbeat at a time for all that came until then."""
        try:
            while self._new:
                new, self._new = self._new, []
                await self._instance.join(*new)
        finally:
            self._is_joining = False

    def _is_full(self, groups: Mapping[str, _GroupOfClients]) -> bool:
        is_full = len(groups) >= GROUPS_MAX
        if is_full and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "brokers are not told of all groups of clients: this proxy has told them of %d already",
                GROUPS_MAX,
            )
        return is_full

    def _left(self, group: _GroupOfClients, client: ClientPeer) -> None:
        group.remove(cast("GrpcClient", client))
        groups = self._groups[group.kind]
        if group.clients or groups.get(group.group) is not group:
            return
        del groups[group.group]
        if group in self._new:  # No broker knows it.
            self._new.remove(group)
        else:
            self._tasks.spawn(self._instance.leave(group), "groups")

    def _take_check(self, command: Command, channel: Channel) -> bool:
        """Pass a broker's question about a half message on to a producer of its topic that has a stream of telemetry."""
        try:
            topic = decode_record(command.body).properties().get(PRODUCER_GROUP, "")
        except CodecError:
            return False
        group = self._groups[ProducerPart].get(topic)
        asked = [
            each
            for each in (group.clients if group is not None else ())
            if topic in each.topics and each.stream is not None and not each.stream.is_closed
        ]
        if not asked:
            return False
        # Brokers before 5.1 do not name themselves.
        names = {address: name for name, address in self._instance.routes.masters.items()}
        fields = {"bname": names.get(channel.address, ""), **command.fields}
        asked[next(self._turn) % len(asked)].notify(command.code, fields, command.body)
        return True
