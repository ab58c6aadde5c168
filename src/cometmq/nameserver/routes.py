"""The route table of a nameserver: living brokers and their topics, and brokers that have left.

Mostly follows RouteInfoManager of RocketMQ 5.3.3. A broker is identified by cluster and address. It is removed if it has
given no sign of life for its timeout, or if its last registration came on a connection that was closed.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, NamedTuple, Protocol

from cometmq.codec.bodies.missing_brokers import MissingBroker
from cometmq.codec.bodies.register import RegisterBrokerBody
from cometmq.codec.headers.nameserver import RegisterBroker, RegisterBrokerResponse
from cometmq.model.clock import Clock
from cometmq.model.codes import ResponseCode
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import RequestError
from cometmq.model.flags import PERM_READ_WRITE, PERM_WRITE, is_readable
from cometmq.model.route import MASTER_ID, BrokerData, QueueData
from cometmq.model.topic import TopicConfig
from cometmq.nameserver.missing import MissingBrokers
from cometmq.nameserver.rivals import Rivals

_log = logging.getLogger(__name__)

# RouteInfoManager.DEFAULT_BROKER_CHANNEL_EXPIRED_TIME, for brokers that name no timeout.
SILENCE_MS_MAX = 120_000
# Maximum number of remembered hosts per broker group.
HOSTS_MAX = 64
# Topics per step of a sweep, about half a millisecond.
_STEP_TOPICS = 500


class BrokerConnection(Protocol):
    """A broker's connection as the route table sees it; `ip` is the IP address of the peer."""

    ip: str

    def close(self) -> None:
        """Close the connection."""


class BrokerKey(NamedTuple):
    """The identity of a broker: its cluster, and its address as "host:port"."""

    cluster: str
    address: str

    def __str__(self) -> str:
        return f"{self.address} in cluster {self.cluster}"


@dataclass(slots=True)
class LiveBroker:
    """A registered broker.

    Attributes:
        version: Version of the topics in its last registration.
        ha_address: Address from which slaves can copy its log.
        timeout: Seconds that it may be silent.
        last_heard: Monotonic time of its last registration, or heartbeat or version query from its host, seconds.
        connection: Connection of its last registration.
        filter_servers: Addresses of filter servers; obsolete.
    """

    version: DataVersion
    ha_address: str
    timeout: float
    last_heard: float
    connection: BrokerConnection
    filter_servers: tuple[str, ...] = ()


@dataclass(slots=True)
class LeavingBroker:
    """A broker group that has left, while its queues are being removed from the topics.

    Attributes:
        cluster: Cluster of the group.
        left_ms: When it left, ms since 1970.
        is_orderly: Whether its last member unregistered.
        readable: Number of its readable queues by topic, as far as they were removed.
    """

    cluster: str
    left_ms: int
    is_orderly: bool
    readable: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class RouteTable:
    """The registrations of all brokers.

    Attributes:
        clock: Clock for timeouts.
        groups: Broker groups by name. Invariant: each has an address.
        clusters: Names of broker groups by cluster. Invariant: none is empty.
        topics: Queues by topic and broker name. Invariant: no topic is without queues.
        live: Living brokers.
        mappings: TopicQueueMappingInfo by topic and broker name (static topics, 5.x).
        hosts: IPs (HOSTS_MAX at most) from which members of a group registered, by its name, until the group is gone.
        missing: Broker groups that have left and not returned.
        rivals: Claims of brokers to the name and id of another living broker.
        leaving: Groups that have left, by name, which `topics` may still contain; see `queues_of`.
        on_come: Called when the earliest time at which a broker may time out may have become earlier.
        on_leave: Called when `sweep` has work; without it, queues are removed immediately.
    """

    clock: Clock
    groups: dict[str, BrokerData] = field(default_factory=dict)
    clusters: dict[str, set[str]] = field(default_factory=dict)
    topics: dict[str, dict[str, QueueData]] = field(default_factory=dict)
    live: dict[BrokerKey, LiveBroker] = field(default_factory=dict)
    mappings: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)
    hosts: dict[str, set[str]] = field(default_factory=dict)
    missing: MissingBrokers = field(default_factory=MissingBrokers)
    rivals: Rivals = field(default_factory=Rivals)
    leaving: dict[str, LeavingBroker] = field(default_factory=dict)
    on_come: Callable[[], object] = lambda: None
    on_leave: Callable[[], object] | None = None

    # --- registration

    def register(
        self,
        header: RegisterBroker,
        registration: RegisterBrokerBody,
        connection: BrokerConnection,
        *,
        queues: Mapping[str, QueueData] | None = None,
        zone_name: str | None = None,
        deletes_missing_topics: bool = False,
    ) -> RegisterBrokerResponse:
        """Register a broker; with its topics if it is the master or, without one, the slave (5.0 or later) of least id.

        If another living broker of a later master epoch has its name and id, the broker is not registered, and its
        earlier registration is removed.

        Args:
            header: Identity of the broker.
            registration: Topics of the broker.
            connection: Connection whose end removes the broker.
            queues: Result of `queues_told` for `header` and `registration`, if already computed.
            zone_name: Zone of the broker, or None.
            deletes_missing_topics: Whether to remove topics that it had and no longer names, unless it names static
                ones.

        Returns:
            For a slave that was registered, the master and its HA address if known; otherwise an empty response.

        Raises:
            RequestError: SYSTEM_ERROR: A broker with an id new to its group named one topic. Such a message follows a
                change of that topic, and all others would seem to be missing.
        """
        key = BrokerKey(header.cluster_name, header.broker_addr)
        if header.broker_name in self.leaving:
            self.forget(header.broker_name)
        addresses = self._addresses_beside(header)
        if self._has_newer_owner(header, addresses, registration):
            self._turn_away(header, addresses)
            return RegisterBrokerResponse()
        is_first = header.broker_id not in addresses
        topics = registration.table.topics
        if is_first and len(topics) == 1:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"register broker failed: {header.broker_name} id {header.broker_id} is not registered "
                "yet, but the request has one topic only; register all of its topics first",
            )
        owner = addresses.get(header.broker_id)
        if owner is not None and owner != header.broker_addr:
            self._displace(header, owner, connection)
        self.rivals.forget(header.broker_addr)
        addresses[header.broker_id] = header.broker_addr
        self._seat(header, addresses, zone_name)
        if header.broker_id == MASTER_ID or _is_prime_slave(header, addresses):
            if deletes_missing_topics and not registration.queue_mappings:
                self._forget_missing(header.broker_name, topics)
            if queues is None:
                queues = queues_told(header, registration)
            self._take_topics(header, registration, queues, is_first=is_first)
        self._keep_alive(key, header, registration, connection)
        self.missing.back(header.broker_name)
        return self._master_of(header, addresses)

    def _addresses_beside(self, header: RegisterBroker) -> dict[int, str]:
        """Return the group's addresses by id, without this address under another id (after a change of roles)."""
        group = self.groups.get(header.broker_name)
        return {
            broker_id: address
            for broker_id, address in (group.addresses if group else {}).items()
            if address != header.broker_addr or broker_id == header.broker_id
        }

    def _seat(
        self, header: RegisterBroker, addresses: Mapping[int, str], zone_name: str | None
    ) -> None:
        group = self.groups.get(header.broker_name)
        self.clusters.setdefault(header.cluster_name, set()).add(header.broker_name)
        self.groups[header.broker_name] = BrokerData(
            cluster=group.cluster if group else header.cluster_name,
            broker_name=header.broker_name,
            addresses=addresses,
            is_acting_master_enabled=bool(header.enable_acting_master),
            zone_name=zone_name,
        )

    def _displace(
        self, header: RegisterBroker, owner: str, connection: BrokerConnection
    ) -> None:
        """Take a name and id from a broker; close its connection to inform it, unless another broker shares it."""
        self.rivals.note(header, owner, self.clock)
        live = self.live.pop(BrokerKey(header.cluster_name, owner), None)
        if live is None:
            return
        _log.warning(
            "Broker %s id %d is now at %s instead of %s", header.broker_name, header.broker_id, header.broker_addr, owner
        )  # fmt: skip
        # Several brokers may share a connection.
        if live.connection is not connection and not self.of_connection(live.connection):
            live.connection.close()

    def _turn_away(self, header: RegisterBroker, addresses: Mapping[int, str]) -> None:
        _log.warning(
            "Broker %s id %d was registered by a newer broker; the registration of %s is ignored",
            header.broker_name, header.broker_id, header.broker_addr,
        )  # fmt: skip
        self.rivals.note(header, header.broker_addr, self.clock)
        group = self.groups[header.broker_name]
        self.groups[header.broker_name] = replace(group, addresses=addresses)
        self.live.pop(BrokerKey(header.cluster_name, header.broker_addr), None)

    def _has_newer_owner(
        self,
        header: RegisterBroker,
        addresses: Mapping[int, str],
        registration: RegisterBrokerBody,
    ) -> bool:
        """Return whether a registration's name and id belong to another live broker with a later master epoch."""
        owner = addresses.get(header.broker_id)
        if owner is None or owner == header.broker_addr:
            return False
        live = self.live.get(BrokerKey(header.cluster_name, owner))
        version = registration.table.version
        return live is not None and live.version.state_version > version.state_version

    def _forget_missing(self, broker_name: str, topics: Mapping[str, TopicConfig]) -> None:
        for topic in [topic for topic in self.topics_of(broker_name) if topic not in topics]:
            self._drop_queues(topic, broker_name)

    def _take_topics(
        self,
        header: RegisterBroker,
        registration: RegisterBrokerBody,
        queues: Mapping[str, QueueData],
        *,
        is_first: bool,
    ) -> None:
        known = self.version_of(header.cluster_name, header.broker_addr)
        is_changed = is_first or known != registration.table.version
        name = header.broker_name
        for topic, data in queues.items():
            known_queues = self.topics.get(topic)
            if known_queues is None:
                self.topics[topic] = {name: data}
            elif is_changed or name not in known_queues:
                known_queues[name] = data
        if is_changed:
            for topic, mapping in registration.queue_mappings.items():
                owner = str(mapping.get("bname") or header.broker_name)
                self.mappings.setdefault(topic, {})[owner] = mapping

    def _keep_alive(
        self,
        key: BrokerKey,
        header: RegisterBroker,
        registration: RegisterBrokerBody,
        connection: BrokerConnection,
    ) -> None:
        timeout_ms = header.heartbeat_timeout_millis
        hosts = self.hosts.setdefault(header.broker_name, set())
        if len(hosts) < HOSTS_MAX:
            hosts.add(connection.ip)
        known = self.live.get(key)
        if known is None:
            _log.info(
                "Broker %s id %d registered at %s", header.broker_name, header.broker_id, key
            )
        live = self.live[key] = LiveBroker(
            version=registration.table.version,
            ha_address=header.ha_server_addr,
            timeout=(SILENCE_MS_MAX if timeout_ms is None else timeout_ms) / 1000,
            last_heard=self.clock.monotonic(),
            connection=connection,
            filter_servers=registration.filter_servers,
        )
        if known is None or live.timeout < known.timeout:
            self.on_come()

    def _master_of(
        self, header: RegisterBroker, addresses: Mapping[int, str]
    ) -> RegisterBrokerResponse:
        master = addresses.get(MASTER_ID)
        if header.broker_id == MASTER_ID or master is None:
            return RegisterBrokerResponse()
        live = self.live.get(BrokerKey(header.cluster_name, master))
        if live is None:
            return RegisterBrokerResponse()
        return RegisterBrokerResponse(ha_server_addr=live.ha_address, master_addr=master)

    def touch(self, cluster: str, address: str) -> None:
        """Record a sign of life of a broker, if it is registered."""
        live = self.live.get(BrokerKey(cluster, address))
        if live is not None:
            live.last_heard = self.clock.monotonic()

    def version_of(self, cluster: str, address: str) -> DataVersion | None:
        """Return the version in a broker's last registration, or None if the broker is not registered."""
        live = self.live.get(BrokerKey(cluster, address))
        return live.version if live else None

    # --- removal

    def drop_silent(self) -> None:
        """Remove brokers that were silent for longer than their timeout, and close the connection of each."""
        now = self.clock.monotonic()
        for key, live in list(self.live.items()):
            if live.last_heard + live.timeout < now:
                _log.warning(
                    "The broker at %s has sent no heartbeat for %d s and is removed",
                    key, live.timeout,
                )  # fmt: skip
                self.drop(key)
                live.connection.close()

    def drop_closed(self, connection: BrokerConnection) -> None:
        """Remove the brokers that last registered on a connection, because it was closed."""
        for key in self.of_connection(connection):
            _log.info("The broker at %s has closed its connection and is removed", key)
            self.drop(key)

    def next_silent(self) -> float:
        """Return the earliest monotonic time in seconds at which a broker may time out; infinite without brokers."""
        return min((live.last_heard + live.timeout for live in self.live.values()), default=inf)

    def of_connection(self, connection: BrokerConnection) -> list[BrokerKey]:
        """Return the brokers whose last registration came on this connection.

        Differs from Java, which finds only one of them: a container runs several brokers on one connection.
        """
        return [key for key, live in self.live.items() if live.connection is connection]

    def drop(self, key: BrokerKey) -> None:
        """Remove a broker that was lost without unregistering, from the first group with its cluster and address."""
        for name, group in list(self.groups.items()):
            if group.cluster == key.cluster and key.address in group.addresses.values():
                self.unregister(key, name, is_orderly=False)
                return
        self.live.pop(key, None)

    def unregister(self, key: BrokerKey, broker_name: str, *, is_orderly: bool = True) -> None:
        """Remove a broker, which unregistered if `is_orderly`; its group is removed with its last address.

        If a group is left without a master and allows a slave to act as one, its topics lose the write permission.
        """
        if self.live.pop(key, None) is not None:
            _log.info("Broker %s left: it was at %s", broker_name, key)
        self.rivals.forget(key.address)
        group = self.groups.get(broker_name)
        if group is None:
            return
        addresses = {i: a for i, a in group.addresses.items() if a != key.address}
        if addresses:
            self.groups[broker_name] = replace(group, addresses=addresses)
            if group.is_acting_master_enabled and MASTER_ID not in addresses:
                self.wipe_write_perm(broker_name)
            return
        del self.groups[broker_name]
        self.hosts.pop(broker_name, None)
        for members in self.clusters.values():
            members.discard(broker_name)
        self.clusters = {name: members for name, members in self.clusters.items() if members}
        self.leaving[broker_name] = LeavingBroker(
            group.cluster, self.clock.now_ms(), is_orderly
        )
        if self.on_leave is None:
            self.forget(broker_name)
        else:
            self.on_leave()

    def sweep(self) -> Iterator[None]:
        """Remove the queues of broker groups that left, yielding between short steps; pass the groups to `missing`."""
        while self.leaving:
            yield from self._forget_in_steps(next(iter(self.leaving)))

    def forget(self, broker_name: str) -> None:
        """Remove the queues of a broker group that has left, all at once, and pass the group to `missing`."""
        for _ in self._forget_in_steps(broker_name):
            pass

    def _forget_in_steps(self, broker_name: str) -> Iterator[None]:
        for number, topic in enumerate(list(self.topics), start=1):
            if not number % _STEP_TOPICS:
                yield
            gone = self.leaving.get(broker_name)
            if gone is None:  # It returned; `register` has removed its old queues.
                return
            data = self.topics.get(topic, {}).get(broker_name)
            if data is None:
                continue
            if is_readable(data.perm) and data.read_queues:
                gone.readable[topic] = data.read_queues
            self._drop_queues(topic, broker_name)
        if gone := self.leaving.pop(broker_name, None):
            self.missing.note(
                MissingBroker(broker_name, gone.cluster, gone.left_ms, gone.readable),
                now=self.clock.monotonic(),
                is_orderly=gone.is_orderly,
            )

    def queues_of(self, topic: str) -> Mapping[str, QueueData]:
        """Return a topic's queues by broker name, without those of broker groups that have left."""
        queues = self.topics.get(topic, {})
        if not self.leaving:
            return queues
        return {name: data for name, data in queues.items() if name not in self.leaving}

    def topic_names(self) -> Sequence[str]:
        """Return the names of the topics of all broker groups that have not left."""
        if not self.leaving:
            return tuple(self.topics)
        return [
            topic
            for topic, queues in self.topics.items()
            if not self.leaving.keys() >= queues.keys()
        ]

    def missing_brokers(self) -> list[MissingBroker]:
        """Return the broker groups that have left and not returned, while they are remembered (`MissingBrokers`)."""
        return self.missing.known(self.clock.monotonic())

    def _drop_queues(self, topic: str, broker_name: str) -> None:
        queues = self.topics[topic]
        queues.pop(broker_name, None)
        if not queues:
            del self.topics[topic]
            self.mappings.pop(topic, None)

    # --- changes by tools

    def wipe_write_perm(self, broker_name: str) -> int:
        """Make a broker's queues unwritable, usually until it registers changed topics; return its number of topics."""
        topics = self.topics_of(broker_name)
        for topic in topics:
            data = self.topics[topic][broker_name]
            self.topics[topic][broker_name] = replace(data, perm=data.perm & ~PERM_WRITE)
        return len(topics)

    def add_write_perm(self, broker_name: str) -> int:
        """Set the permission of a broker's queues to read and write, whatever it was; return its number of topics."""
        topics = self.topics_of(broker_name)
        for topic in topics:
            data = self.topics[topic][broker_name]
            self.topics[topic][broker_name] = replace(data, perm=PERM_READ_WRITE)
        return len(topics)

    def register_topic(self, topic: str, queues: tuple[QueueData, ...]) -> None:
        """Add or change a topic's queues; if the broker of one of them is unknown, only log a warning."""
        unknown = [data.broker_name for data in queues if data.broker_name not in self.groups]
        if unknown:
            _log.warning(
                "Topic %s is not registered, because %s is not a registered broker",
                topic,
                ", ".join(unknown),
            )
        elif queues:
            self.topics.setdefault(topic, {}).update(
                {data.broker_name: data for data in queues}
            )

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Remove a topic, if there is one, in one cluster or in all, also from the missing brokers."""
        self.missing.forget_topic(topic, cluster)
        if topic not in self.topics:
            return
        names = set(self.topics[topic])
        for name in names & self.clusters.get(cluster, set()) if cluster else names:
            self._drop_queues(topic, name)

    def topics_of(self, broker_name: str) -> list[str]:
        """Return the names of the topics that have queues on a broker group."""
        return [topic for topic, queues in self.topics.items() if broker_name in queues]


def queues_told(
    header: RegisterBroker, registration: RegisterBrokerBody
) -> dict[str, QueueData]:
    """Return the queues that a registration names, by topic; those of a slave with enableActingMaster are not writable.

    Callable in any thread.
    """
    # An acting master accepts no sends.
    is_acting = header.broker_id != MASTER_ID and bool(header.enable_acting_master)
    return {
        config.name: QueueData(
            broker_name=header.broker_name,
            read_queues=config.read_queues,
            write_queues=config.write_queues,
            perm=config.perm & ~PERM_WRITE if is_acting else config.perm,
            sys_flag=config.sys_flag,
        )
        for config in registration.table.topics.values()
    }


def _is_prime_slave(header: RegisterBroker, addresses: Mapping[int, str]) -> bool:
    """Return whether a broker is a slave (RocketMQ 5.0 or later) with the smallest id in a group without a master."""
    is_least = MASTER_ID < header.broker_id == min(addresses)
    return header.enable_acting_master is not None and is_least
