"""The part that the producers and consumers of a client share: routes, connections and heartbeats (MQClientInstance).

A client fetches routes from a nameserver that answers. If it has members, it sends a heartbeat with their groups to the
masters that it knows, and to slaves if a member is a consumer. Both are repeated about every 30 s by default;
heartbeats are attempted sooner while such a broker is not connected.
"""

import asyncio
import logging
import os
import random
from collections.abc import Collection, Mapping
from typing import NoReturn, Protocol
from weakref import WeakSet

from cometmq.client.answer_bodies import OWN_SIZE_MAX
from cometmq.client.api.asking import side_by_side
from cometmq.client.api.members import MemberApi
from cometmq.client.api.nameserver import NameserverApi
from cometmq.client.connection.master_search import MasterSearch
from cometmq.client.connection.nameservers import Nameservers
from cometmq.client.connection.route_fetcher import RouteFetcher
from cometmq.client.connection.routes import KnownTopic, TopicRoutes
from cometmq.client.identity import checked_ip, make_client_id, own_ip
from cometmq.client.outages import Outages
from cometmq.client.periodic import repeat
from cometmq.client.settings import (
    ClientSettings,
    environment_credentials,
    environment_tls,
    nameserver_addresses,
)
from cometmq.codec.bodies.heartbeat import (
    ConsumerPart,
    Heartbeat,
    ProducerPart,
    encode_heartbeat,
)
from cometmq.codec.remoting import Command
from cometmq.model.clock import Clock
from cometmq.model.codes import ResponseCode, request_name
from cometmq.model.errors import BrokerNotFound, BrokerRefused, CometError, TopicNotFound
from cometmq.model.queue import MessageQueue
from cometmq.model.route import MASTER_ID
from cometmq.model.text import in_quotes
from cometmq.net.answer import Answer
from cometmq.net.channel import Channel
from cometmq.net.channels import Channels
from cometmq.net.loop import beat_wait, loop_chance, loop_clock
from cometmq.net.tasks import Tasks

_log = logging.getLogger(__name__)

_REFRESHING, _BEATING = "refreshing routes", "sending heartbeats to"

# First pause before an unreachable broker is tried again, doubled up to the heartbeat interval, ms.
_AWAY_MS = 500
# Above it, producers get a heartbeat of their own: a broker refuses one with more than 1,000 groups. Only a proxy has so many.
_GROUPS_AT_ONCE = 500
_CLOSE_MS = 100  # After this time the connection to a former master is aborted.
# How long a broker stays known after a nameserver last listed it, seconds. A restarted nameserver lists no broker until it
# registers again (every 30 s), a restarted broker is not listed. Java's nameserver waits as long for a silent broker.
_NAMED_SECONDS = 120.0


class Member(Protocol):
    """Interface of a producer or consumer that shares a `ClientInstance`."""

    @property
    def group(self) -> str:
        """The name of the member's group."""
        ...

    def heartbeat_part(self) -> ProducerPart | ConsumerPart:
        """Return the part of a heartbeat that announces this member to brokers."""
        ...

    def topics(self) -> list[str]:
        """Return the topics whose routes must be refreshed."""
        ...

    def take_request(self, command: Command, channel: Channel) -> bool:
        """Handle a broker's request, with an answer on the channel if one is needed; return False if it is not for this member.

        Called for requests that name this member's group or no group.
        """
        ...


class ClientInstance:
    """The connections and routes of one client, with its members.

    Attributes:
        clock: Time for this client.
        chance: Random numbers for load balancing and ids.
        client_id: Id under which brokers list this client; if it was made before a fork, `start` replaces it.
        ip: Address of this machine in client and message ids.
        channels: Connections to brokers and nameservers.
        routes: The known routes.
        masters: Searches for masters that have failed.
        nameservers: The nameservers, to send requests to.
        nameserver_api: Typed requests to nameservers.
    """

    def __init__(
        self,
        nameservers: str | None = None,
        settings: ClientSettings | None = None,
        *,
        clock: Clock | None = None,
        chance: random.Random | None = None,
    ) -> None:
        """Create the instance without connecting; `start` begins the periodic work.

        Raises SettingsError if a nameserver address, the client's ip, the TLS settings, or credentials of the environment
        are invalid.
        """
        self.settings = settings or ClientSettings()
        self.clock = clock or loop_clock()
        self.outages = Outages(self.clock)
        self.chance = chance or loop_chance()
        addresses = nameserver_addresses(nameservers)
        given = self.settings.client_ip
        self.ip = checked_ip(given) if given else own_ip(addresses[0])
        self._pid = os.getpid()
        self._take_id()
        self.routes = TopicRoutes()
        self.channels = self._make_channels()
        self.nameservers = Nameservers(
            addresses, self.channels, timeout_ms=self.request_timeout_ms, chance=self.chance
        )
        self.nameserver_api = NameserverApi(self.nameservers)
        self._route_fetcher = RouteFetcher(
            self.routes, self.nameserver_api, on_new=self._introduce
        )
        self.masters = MasterSearch(self.routes, self._route_fetcher, self.clock, self.chance)
        self.masters.on_moved.append(self._master_moved)
        self._member_api = MemberApi(self)
        self.tasks = Tasks(self.client_id)
        self._members: list[Member] = []
        self._leaving: list[Member] = []  # Members whose brokers are being notified.
        # Connections on which a heartbeat was sent, and addresses to which one is waiting for a connection.
        self._introduced: WeakSet[Channel] = WeakSet()
        self._beating: set[str] = set()
        # Members that all brokers of the cluster must know.
        self._everywhere: list[Member] = []
        self._lost = asyncio.Event()
        # Whether all brokers were queried, an unreachable broker is looked for, and `start` was called.
        self._is_cluster_known = self._is_looking = self._is_started = False

    def _take_id(self) -> None:
        self.client_id = make_client_id(self.ip, self.settings.instance_name, self.chance)

    def _make_channels(self) -> Channels:
        return Channels(
            self.clock,
            on_request=self._take_request,
            connect_timeout_ms=self.settings.connect_timeout_ms,
            on_opened=lambda _channel: self._introduce(),
            on_lost=self._channel_lost,
            credentials=self.settings.credentials or environment_credentials(),
            tls=self.settings.tls or environment_tls(),
        )

    def _channel_lost(self, channel: Channel) -> None:
        self._lost.set()
        self.masters.doubt_at(channel.address)

    def _master_moved(self, _broker_name: str, before: str | None) -> None:
        """Close the connection to a former master unless a route still lists it; hasten the next heartbeats."""
        named = self.routes.addresses(only_masters=False)
        if before is not None:
            self.channels.give_up(before)  # Sends that wait for it can go on.
        if before is not None and before not in named:
            channel = self.channels.peek(before)
            if channel is not None:
                channel.close()
                # It may hang and not read what is to be sent before.
                self.tasks.spawn(channel.wait_closed(timeout_ms=_CLOSE_MS), "closing")
        self._lost.set()

    def __repr__(self) -> str:
        return f"<ClientInstance {self.client_id} of {';'.join(self.nameservers.addresses)}>"

    # --- life cycle

    async def start(self) -> None:
        """Start refreshing routes and sending heartbeats in the background; do nothing if already started."""
        if not self._is_started:
            self._is_started = True
            if self._pid != os.getpid():
                self._pid = os.getpid()
                # The instance was made before a fork: other children of the parent have the same id and random state.
                self.chance.seed(loop_chance().getrandbits(64))
                self._take_id()
            self.channels.reopen()
            times = self.settings
            self.tasks.spawn(repeat(self.refresh, every_ms=times.route_interval_ms), "routes")
            self.tasks.spawn(self._keep_known(), "heartbeat")

    async def close(self) -> None:
        """Stop everything and close the connections; waiting requests fail. Members must have left before."""
        self._is_started = False
        self._route_fetcher.close()
        await self.tasks.close()
        await self.channels.close()
        await self.masters.close()

    async def join(self, *members: Member, everywhere: bool = False) -> None:
        """Add producers or consumers, and send heartbeats as `beat` does; failures are only logged.

        With `everywhere`, heartbeats also go to brokers that are in no route, as far as a nameserver lists them.
        """
        self._members += members
        if everywhere:
            self._everywhere += members
        await self.beat()

    async def leave(self, member: Member) -> None:
        """Remove a member and notify the connected brokers, so that other members need not wait for a timeout.

        Failures are only logged; an unknown member is ignored.
        """
        if member in self._members:
            self._members.remove(member)
            self._leaving.append(member)
        if member not in self._leaving:
            return
        if member in self._everywhere:
            self._everywhere.remove(member)
            if not self._everywhere:
                self._is_cluster_known = False
                self.routes.forget_cluster()
        is_producer = isinstance(member.heartbeat_part(), ProducerPart)
        open_addresses = set(self.channels.open_addresses()) - set(self.nameservers.addresses)
        refused = await self._member_api.leave(
            open_addresses, self.client_id, member.group, is_producer=is_producer
        )
        self._leaving.remove(member)
        _log_refusals(f"group {member.group}", refused)

    # --- routes

    async def known(self, topic: str) -> KnownTopic:
        """Return the known route of a topic with its queues; fetch it if it is unknown or only derived from TBW102.

        Raises the errors of `fresh` if it must be fetched.
        """
        known = self.routes.get(topic)
        if known is not None and not known.is_inherited:
            return known
        return await self._route_fetcher.fetch(topic)

    async def fresh(self, topic: str) -> KnownTopic:
        """Fetch the current route of a topic from the nameserver, even if it is known, and return it with its queues.

        The first nameserver that answers decides. Raises TopicNotFound if it has no route, BrokerRefused or CodecError
        if it refuses or its route is invalid, and NetError if none answers.
        """
        return await self._route_fetcher.fetch(topic)

    async def known_to_send(self, topic: str, *, default_queues: int) -> KnownTopic:
        """Return the known route of a topic, or fetch it; without one, derive it from the default topic.

        Raises TopicNotFound if neither exists, and the other errors of `fresh`.
        """
        known = self.routes.get(topic)
        if known is not None:
            return known
        return await self._route_fetcher.fetch_to_send(topic, default_queues)

    async def fresh_to_send(self, topic: str, *, default_queues: int) -> KnownTopic:
        """Fetch the current route of a topic, or derive it again if the known one is derived from the default topic.

        Raises the errors of `fresh`.
        """
        known = self.routes.get(topic)
        if known is not None and known.is_inherited:
            return await self._route_fetcher.fetch_to_send(topic, default_queues)
        return await self._route_fetcher.fetch(topic)

    async def refresh(self) -> None:
        """Fetch every route in use again, then close idle connections to unknown brokers; failures are only logged."""
        wanted = dict.fromkeys(self.routes.topics)
        for member in self._members:
            wanted.update(dict.fromkeys(member.topics()))
        for topic in wanted:
            try:
                await self._route_fetcher.fetch(topic)
            except CometError as error:
                # The old route stays valid: a restarted nameserver has no routes for a while.
                place = (
                    f"of {topic}" if isinstance(error, TopicNotFound) else "at the nameservers"
                )
                self.outages.failed(_REFRESHING, place, error, topic)
            else:
                self.outages.worked(_REFRESHING, topic)
        if self._everywhere:
            await self._learn_cluster()
        self._close_strangers()
        if (
            not self._is_looking and self._is_anyone_away()
        ):  # A broker is new or has a new address.
            self._lost.set()

    async def _learn_cluster(self) -> None:
        """Get all brokers of the cluster from a nameserver and add them to the route table; only log a failure.

        Java's client uses the default topic's route instead, but not every broker has that topic.
        """
        try:
            info = await self.nameserver_api.cluster(size_max=OWN_SIZE_MAX)
        except CometError as error:
            self.outages.failed("listing the brokers", "at the nameservers", error)
            return
        self.outages.worked("listing the brokers")
        self._is_cluster_known = True
        brokers = info.brokers.values()
        self.routes.put_cluster(brokers, self.clock.monotonic(), keep_seconds=_NAMED_SECONDS)

    def _close_strangers(self) -> None:
        named = set(self.nameservers.addresses)
        for addresses in self.routes.brokers.values():
            named.update(addresses.values())
        for address in self.channels.open_addresses():
            channel = self.channels.peek(address)
            # An administrator queries brokers that no route contains: do not interrupt an answer.
            if address not in named and channel is not None and not channel.is_waiting:
                channel.close()

    # --- requests

    def address(self, broker_name: str, broker_id: int = MASTER_ID) -> str:
        """Return "host:port" of a member of a broker group (default: the master); raise BrokerNotFound if unknown."""
        address = self.routes.address(broker_name, broker_id)
        if address is None:
            raise self.not_found(broker_name, broker_id)
        return address

    def not_found(self, broker_name: str, broker_id: int = MASTER_ID) -> BrokerNotFound:
        """Return (do not raise) the error for a broker of unknown address; if a route lists it, look for its master.

        The search runs in the background. A route that was fetched between two masters has no master.
        """
        self.masters.doubt(broker_name)
        return BrokerNotFound(
            f"no route has an address of broker {in_quotes(broker_name)} (id {broker_id}); known brokers are "
            f"{', '.join(sorted(self.routes.brokers)) or 'none'}; is it registered at the nameserver?"
        )

    async def ask(
        self, address: str, command: Command, *, timeout_ms: float | None = None
    ) -> Command:
        """Send a request to a broker and return its answer; timeout: the larger of `timeout_ms` and `request_timeout_ms`.

        Raises BrokerRefused for an error answer, NetError or CodecError without a valid answer, ClientClosed after `close`.
        """
        # A larger setting of the user takes precedence over the timeout for this kind of request.
        timeout_ms = max(timeout_ms or 0, self.settings.request_timeout_ms)
        try:
            answer = await self.channels.call(address, command, timeout_ms=timeout_ms)
            if answer.code != ResponseCode.SUCCESS:
                raise BrokerRefused(answer.code, answer.remark or "", address)
        except CometError as error:
            self.masters.doubt_at(address, error)
            raise
        return answer

    async def tell(self, address: str, command: Command) -> None:
        """Send a one-way request, which is not answered; raise NetError if the broker cannot be reached."""
        await self.channels.oneway(address, command)

    async def broker_of(self, queue: MessageQueue) -> str:
        """Return the address of a queue's broker: its master, or one of its slaves while the route has no master.

        Follows findBrokerAddressInSubscribe of RocketMQ 5.3.3. Raises BrokerNotFound if no route has the broker, and the
        errors of `known` if the topic's route must be fetched.
        """
        if self.routes.get(queue.topic) is None:
            await self.known(queue.topic)
        address = self.routes.address_to_read(queue.broker_name)
        if address is None:
            raise self.not_found(queue.broker_name)
        return address

    async def channel_of(self, queue: MessageQueue) -> Channel:
        """Return the connection to a queue's broker; raise the errors of `broker_of`, or NetError if it is unreachable."""
        return await self.channels.get(await self.broker_of(queue))

    @property
    def request_timeout_ms(self) -> int:
        """The usual timeout for requests that the broker does not hold, ms."""
        return self.settings.request_timeout_ms

    # --- heartbeats

    async def beat(self) -> None:
        """Send a heartbeat with all members to the masters of the routes, and of the cluster if a member requires it.

        If a member is a consumer, slaves get the same heartbeat. Failures are only logged. Does nothing without members.
        """
        if self._everywhere and not self._is_cluster_known:
            await self._learn_cluster()
        await self._beat(self._addresses_to_beat())

    async def _beat(self, addresses: Collection[str]) -> None:
        parts = [member.heartbeat_part() for member in self._members]
        producers = tuple(part for part in parts if isinstance(part, ProducerPart))
        consumers = tuple(part for part in parts if isinstance(part, ConsumerPart))
        if not parts:
            return
        heartbeats = [Heartbeat(self.client_id, producers, consumers)]
        if len(parts) > _GROUPS_AT_ONCE:
            heartbeats = [
                Heartbeat(self.client_id, producers=producers),
                Heartbeat(self.client_id, consumers=consumers),
            ]
        bodies = list(map(encode_heartbeat, heartbeats))

        async def beat(address: str) -> None:
            self._beating.add(address)
            try:
                channel = await self.channels.get(address)
            finally:
                self._beating.discard(address)
            self._introduced.add(channel)
            for body in bodies:
                await self._member_api.beat(address, body)

        said = await side_by_side(beat, addresses)
        for address, error in zip(addresses, said, strict=True):
            if isinstance(error, BaseException):
                self.outages.failed(_BEATING, address, error, address)
                self.masters.doubt_at(address)
            else:
                self.outages.worked(_BEATING, address)

    def _addresses_to_beat(self) -> set[str]:
        """Return the addresses that need heartbeats: masters, and slaves if there is a consumer; none if no members."""
        is_reading = any(
            isinstance(each.heartbeat_part(), ConsumerPart) for each in self._members
        )
        return self.routes.addresses(only_masters=not is_reading) if self._members else set()

    def _introduce(self) -> None:
        """Start sending a heartbeat on each open connection that had none, to brokers that need heartbeats.

        A broker removes members together with their connections, so that others take over their queues. Waiting for the
        next regular heartbeat could cause messages to be consumed twice.
        """
        new = []
        for address in self._addresses_to_beat() - self._beating:
            channel = self.channels.peek(address)
            if channel is not None and channel not in self._introduced:
                self._introduced.add(channel)
                new.append(address)
        if new:
            self.tasks.spawn(self._beat(new), "introduction")

    async def _keep_known(self) -> NoReturn:
        """Send heartbeats until cancelled: at each interval, and sooner while a broker that needs them is not connected."""
        every_ms = self.settings.heartbeat_interval_ms
        away_ms = min(_AWAY_MS, every_ms)
        while True:
            self._is_looking = self._is_anyone_away()
            # Half of the time is random, so that a returning broker does not meet all clients at once.
            wait_ms = (
                away_ms * (0.5 + self.chance.random() / 2) if self._is_looking else every_ms
            )
            if await self._is_lost_within(wait_ms):
                away_ms = min(
                    _AWAY_MS, every_ms
                )  # Restart the pauses, even if the lost broker had just come back.
                continue
            if self._is_looking:
                away_ms = min(2 * away_ms, every_ms)
            try:
                await self.beat()
            except Exception:  # noqa: BLE001  A client without heartbeats would be worse than a line.
                _log.exception("A heartbeat failed; the next one follows")

    async def _is_lost_within(self, wait_ms: float) -> bool:
        self._lost.clear()
        return await beat_wait(self._lost, wait_ms / 1000)

    def _is_anyone_away(self) -> bool:
        wanted = self._addresses_to_beat()
        is_asked_for = self._is_cluster_known or not self._everywhere
        return not is_asked_for or not wanted.issubset(self.channels.open_addresses())

    # --- requests of brokers

    def _take_request(self, command: Command, channel: Channel) -> Answer | None:
        group = command.fields.get("consumerGroup") or command.fields.get("group")
        for member in self._members:
            if group in (None, member.group) and member.take_request(command, channel):
                return None
        return Answer(
            ResponseCode.SYSTEM_ERROR,
            f"client {self.client_id} has no member"
            + (f" of group {in_quotes(group)}" if group else "")
            + f" that handles {request_name(command.code)}",
        )


def _log_refusals(what: str, refused: Mapping[str, CometError | None]) -> None:
    for address, error in refused.items():
        if error is not None:
            _log.info("%s does not know that this client leaves %s: %s", address, what, error)
