"""A broker's membership in a group that elects its leader: its state, its port, and its links to the other members."""

import asyncio
from collections.abc import Callable
from functools import partial

from cometmq.broker.parts import LastingParts
from cometmq.broker.registration.addresses import UNSPECIFIED_HOSTS
from cometmq.broker.replication.allowed_addresses import (
    AllowedAddresses,
    FindMembers,
    IpsOf,
    plain_ips_of,
)
from cometmq.broker.replication.group.greeting import KnownPlaces, OwnGreeting
from cometmq.broker.replication.group.member_files import STATE_NAME, MemberFiles, is_members
from cometmq.broker.replication.group.orders import GroupOrders
from cometmq.broker.replication.group.peer_link import PeerLink, PeerTransport
from cometmq.broker.replication.group.peer_port import PeerPort
from cometmq.broker.replication.group.running_member import (
    GroupPlace,
    RunningMember,
    open_member,
)
from cometmq.broker.replication.terms import link_terms, slave_rates
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.broker.settings.group_keys import PeerAddress
from cometmq.broker.settings.store_keys import FlushDiskType
from cometmq.broker.tables.replication_state import CopyState, MasterState, ReplicationState
from cometmq.codec.bodies.ha_status import HaGroup, HaGroupMember
from cometmq.model.address import join_address, split_address
from cometmq.model.errors import NetError, SettingsError
from cometmq.net.host_names import HostNames
from cometmq.net.tasks import Tasks
from cometmq.replication.far_slave_rate import FarSlaveRate
from cometmq.replication.group.member import RaftRole
from cometmq.replication.group.messages import MemberPlace, Message
from cometmq.replication.group.wire import Content
from cometmq.store.disk import Disk

_STRANGER = "its address is not that of a member of the group, and haAllowedAddresses does not contain it"
_LEARNED_MAX = 32
_ROLES = {
    RaftRole.FOLLOWER: "follower",
    RaftRole.ASKING: "candidate",
    RaftRole.CANDIDATE: "candidate",
    RaftRole.LEADER: "leader",
}


class ElectedGroup:
    """The membership of a broker in its group, from `start` to `close`.

    It is used in place of a master's port for slaves, and of a slave's copier of the log (`RunningRole.replicas`).

    Attributes:
        running: The member.
        orders: The requests of operators to it.
        is_listed: False after another member has refused this one as no member, until one accepts it.
    """

    is_listed = True
    # Id of a leader that was removed, while its answers may still be needed.
    _removed_leader = ""

    def __init__(self, parts: LastingParts, *, on_written: Callable[[], None]) -> None:
        """Open the files of the member, and bind its port; `on_written` is called to flush appended records.

        Raises:
            SettingsError: The store directory is not that of this member, or the secret or TLS settings cannot be used.
            StoreDamaged: A file is damaged.
            NetError: The port cannot be bound.
            OSError: The disk failed.
        """
        peers = parts.settings.peer_addresses()
        self._store, self._clock = parts.store, parts.clock
        self._given = tuple(
            MemberPlace(member, number, join_address(*address))
            for number, (member, address) in enumerate(peers.items(), 1)
        )
        # Addresses of members that are in the lists of others, but not in this member's log yet.
        self._learned: dict[str, PeerAddress] = {}
        self.running = self._open(parts, tuple(peers), on_written)
        place = self.running.place
        self._allowed = AllowedAddresses(
            parts.settings.ha_allowed,
            _find(self._addresses, HostNames(parts.clock).ips_of),
            parts.clock,
        )
        self._allowed.refusal = _STRANGER
        self._own = own = OwnGreeting(
            place.group, place.own, self.running.member.hard.run, parts.address,
            link_terms(parts.settings).secret,
        )  # fmt: skip
        self._port = PeerPort(
            own, clock=parts.clock, admission=self._allowed,
            tls=parts.settings.server_tls(), on_message=self._received,
        )  # fmt: skip
        own_ip = None if parts.listen_host in UNSPECIFIED_HOSTS else parts.listen_host
        self._transport = PeerTransport(own_ip, parts.settings.client_tls(), parts.pool)
        self._links: dict[str, PeerLink] = {}
        self._senders: dict[str, Callable[[list[Content]], None]] = {}
        self._members = frozenset(each.member for each in self.places)
        self._closing = Tasks("links")
        self._is_closed = False
        self.orders = GroupOrders(
            self.running, parts.world, places=lambda: self.places, error_of=self.error_of
        )
        self._bind(parts.listen_host, peers[place.own])

    # --- the other members

    @property
    def places(self) -> tuple[MemberPlace, ...]:
        """The places of all members: those in the log or, before the first change of members, those in dLegerPeers."""
        return self.running.member.log.membership.places or self._given

    def _addresses(self) -> dict[str, PeerAddress]:
        """Return the addresses of all known members by id; those in the log come first, as not all names may be resolved."""
        known = {each.member: PeerAddress(*split_address(each.address)) for each in self.places}
        for member, address in self._learned.items():
            known.setdefault(member, address)
        return known

    def _follow_members(self) -> None:
        """Connect to the members in the log and accept their connections; forget members that left, but not the leader.

        A leader that is removed needs the other members' answers until its removal is committed. And a member that was
        down may read that its present leader was removed, before it reads that this leader was added again. It is forgotten
        once the leader is a member (`_look`).
        """
        members = frozenset(each.member for each in self.places)
        leader = self.running.member.leader
        for gone in self._members - members:
            self._learned.pop(gone, None)
        if leader in self._links and leader not in members:
            self._learned[leader] = self._links[leader].place
            self._removed_leader = leader
        self._members = members
        self._connect()
        self.running.on_change()

    def _look(self) -> None:
        """Continue after an event; forget a removed leader once its removal is committed and a member leads."""
        self.orders.look()
        if self._removed_leader:
            member = self.running.member
            if member.is_settled and member.leader in self._members:
                self._learned.pop(self._removed_leader, None)
                self._removed_leader = ""
                self._connect()

    def _learn(self, known: KnownPlaces) -> None:
        """Note the addresses that another member knows, unless its list is older; this member's log may not have them yet."""
        if known.is_older(self.running.member.log):
            return
        found = {
            each.member: PeerAddress(*split_address(each.address)) for each in known.places
        }
        if not found.items() <= self._learned.items():
            together = {**self._learned, **found}
            self._learned = together if len(together) <= _LEARNED_MAX else found
            self._connect()

    def _connect(self) -> None:
        """Open links to the known members, close others, and admit the known members at the port."""
        if self._is_closed:
            return
        known, running = self._addresses(), self.running
        self._port.admit(frozenset(known), KnownPlaces.of(running.member.log))
        for member, link in list(self._links.items()):
            if known.get(member) != link.place:
                del self._links[member], self._senders[member]
                self._closing.spawn(link.close(), "close")
        for member, address in known.items():
            if member in self._links or member == self._own.own:
                continue
            link = PeerLink(
                member, address, self._own, uses=self._transport, clock=self._clock,
                on_refused=running.refused, on_places=self._learn, on_listed=self._note_listed,
            )  # fmt: skip
            self._links[member], self._senders[member] = link, link.send
            link.start()

    def _note_listed(self) -> None:
        """Update `is_listed`. A member with an old list may refuse a new one, which the leader accepts."""
        links = self._links.values()
        is_listed = any(each.is_open for each in links) or not any(
            each.is_unlisted for each in links
        )
        if is_listed != self.is_listed:
            self.is_listed = is_listed
            self.running.on_change()

    def error_of(self, member: str) -> str | None:
        """Return why another member is not connected; None if it is."""
        link = self._links.get(member)
        return "its address is unknown" if link is None else link.error

    def _open(
        self, parts: LastingParts, voters: tuple[str, ...], on_written: Callable[[], None]
    ) -> RunningMember:
        settings = parts.settings
        place = GroupPlace(
            settings.elected_group or settings.broker_name, settings.self_id, voters,
            settings.preferred_leader,
        )  # fmt: skip
        files = MemberFiles(settings.store_directory, parts.disk)
        is_flushed = settings.flush_disk_type is FlushDiskType.SYNC_FLUSH
        opened = open_member(
            self._store, files, place, is_flushed=is_flushed, now_ms=self._clock.now_ms()
        )
        rate = FarSlaveRate(slave_rates(settings))

        def apply() -> None:
            rate.rates = slave_rates(settings)

        parts.in_force.on_change.append(apply)
        return RunningMember(
            self._store, files, place, opened, world=parts.world, clock=parts.clock, rate=rate,
            on_written=on_written,
        )  # fmt: skip

    def _bind(self, host: str, place: PeerAddress) -> None:
        try:
            self._port.door.bind(host, place.port)
        except NetError as error:
            raise NetError(f"dLegerPeers, {join_address(*place)}: {error}") from error

    def start(self) -> None:
        """Accept the other members' connections, connect to them, and take part in the protocol."""
        self._port.door.serve()
        self.running.on_members = self._follow_members
        self.running.on_event = self._look
        self._connect()
        self.running.start(self._senders)

    async def shut(self) -> None:
        """Close the port and the links, and wait until all writes have ended."""
        self._is_closed = True
        await self._port.door.close()
        for link in self._links.values():
            await link.close()
        await self._closing.close()
        ended = asyncio.Event()
        self.running.close(ended.set)
        await ended.wait()

    def _received(self, message: Message, size: int) -> None:
        self.running.received(message, partial(self._port.handled, size))

    # --- as a role sees it

    def serve(self) -> None:
        """Do nothing: a member takes part in its group in every role."""

    async def close(self) -> None:
        """Do nothing; `shut` ends the membership."""

    def knows(self, ip: str) -> bool:
        """Return whether an IP is known as a member's or is in haAllowedAddresses; if not, resolve host names again."""
        return self._allowed.knows(ip)

    @property
    def leader_address(self) -> str | None:
        """The address of the leader's broker, "ip:port"; None while it is unknown, or this member leads."""
        leader = self.running.member.leader
        return self._port.address_of(leader) if leader else None

    @property
    def broker_id(self) -> int:
        """The broker id of this member while it does not lead, from 1 on; one that left has that of dLegerPeers."""
        numbers = {each.member: each.broker_id for each in (*self._given, *self.places)}
        return numbers[self.running.place.own]

    def state(self) -> ReplicationState:
        """Return the replication state of this member: as a master while it serves as leader, otherwise as a slave."""
        end, running = self._store.max_offset, self.running
        if running.is_serving:
            membership = running.member.log.membership
            copies = {
                each.member: self._copy_of(each, self._links[each.member])
                for each in self.places
                if each.member in self._links and self._links[each.member].is_open
            }
            in_sync = {running.place.own, *(each for each in copies if copies[each].is_in_sync)}
            return ReplicationState(
                is_master=True, max_offset=end, copies=tuple(copies.values()),
                in_sync=len(in_sync.intersection(membership.voters)), needed=membership.majority,
                refused=self._port.door.refused, group=self._status(),
            )  # fmt: skip
        address = self.leader_address
        master = MasterState(
            address=address or "", max_offset=end, is_active=address is not None,
            stopped="its disk or its log failed, see the log" if running.is_over else None,
        )  # fmt: skip
        return ReplicationState(
            is_master=False, max_offset=end, master=master, group=self._status()
        )

    def _status(self) -> HaGroup:
        running, member = self.running, self.running.member
        role = "stopped" if running.is_over else _ROLES[member.role]
        return HaGroup(
            name=running.place.group, own=running.place.own, role=role, term=member.term,
            leader="" if running.is_over else member.leader, confirmed=member.log.commit,
            lease_ms=member.lease_left(self._clock.boot_ms()) if role == "leader" else None,
            elections=running.elections,
            members=tuple(self._member(each, leads=role == "leader") for each in self.places),
        )  # fmt: skip

    def _member(self, place: MemberPlace, *, leads: bool) -> HaGroupMember:
        member, is_own = self.running.member, place.member == self.running.place.own
        link = self._links.get(place.member)
        acked = None
        if leads:
            acked = member.log.stable if is_own else member.acknowledged_by(place.member)
        return HaGroupMember(
            member_id=place.member, address=place.address, broker_id=place.broker_id,
            is_connected=is_own or (link is not None and link.is_open), acked=acked,
            gap=None if acked is None else member.log.end - acked,
            error=None if is_own else self.error_of(place.member),
            votes=place.member in member.log.membership.voters,
        )  # fmt: skip

    def _copy_of(self, place: MemberPlace, link: PeerLink) -> CopyState:
        log = self.running.member.log
        gap = self.running.member.lag_of(link.member)
        return CopyState(
            address=self._port.address_of(link.member) or link.member,
            broker_id=place.broker_id,
            acked=log.end - gap,
            gap=gap,
            is_in_sync=log.end - gap >= log.commit,
            sent=log.end - gap,
            error=link.error,
        )


def check_alone(settings: BrokerSettings, disk: Disk) -> None:
    """Raise SettingsError if the store directory of a broker without a group belongs to a member of one.

    Records that this broker appended would be missing in the logs of the other members.
    """
    if is_members(settings.store_directory, disk):
        raise SettingsError(
            f"storePathRootDir={settings.store_directory} belongs to a member of a group that elects its leader; write "
            "enableDLegerCommitLog=true with its dLegerGroup, dLegerPeers and dLegerSelfId, or another storePathRootDir. To use "
            f"its messages without the group, remove config/{STATE_NAME} from a copy of it"
        )


def _find(addresses: Callable[[], dict[str, PeerAddress]], ips_of: IpsOf) -> FindMembers:
    """Return a function that returns the IPs of all members, and resolves their host names for that."""

    async def find() -> frozenset[str]:
        found = await asyncio.gather(
            *(plain_ips_of(peer.host, ips_of) for peer in addresses().values())
        )
        return frozenset().union(*found)

    return find
