"""The accepted connections of a listening port (`Door`): their origin and limits, and which one makes room for others.

An address that has its largest number of connections gets no more, except this machine if trusted. A full port may
close a silent connection of the address with the most connections: immediately if the newcomer's address has less than
half as many, otherwise only if it is idle and was silent for some time. So those who fill a port mostly do
not lock out others, and tools on this machine mostly get in even if this machine filled it.
"""

import asyncio
import itertools
import logging
from collections import Counter, deque
from collections.abc import Iterator
from ipaddress import ip_address

from cometmq.model.address import join_address
from cometmq.model.clock import Clock
from cometmq.model.frozen import dataclass
from cometmq.net.network import Accepted
from cometmq.net.own_machine import is_own_machine, plain_ip
from cometmq.process import descriptors

_log = logging.getLogger(__name__)

# Scanning 10,000 connections takes about 2 ms: minimum seconds between scans per connection, and candidates kept.
_LOOK_SECONDS_EACH = 1e-5
_FOUND_MAX = 256
# Seconds for the first byte of a connection.
FIRST_BYTE_SECONDS = 15.0
# Network name of connections from this machine.
OWN_MACHINE = "this machine"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits on the accepted connections of a listening port (`Door`).

    Attributes:
        count_max: Largest number of connections; the limit of descriptors may lower it.
        of_network_max: The same per address (IPv6: per /64); this machine, if trusted, has no such limit.
        of_network_key: Setting that raises `of_network_max`, for the log; empty if there is none.
        idle_seconds_max: Seconds of silence after which a connection is closed; at most 15 if it never sent anything.
        unspoken_seconds: Seconds of silence before a connection may be closed for a newcomer of an address with half as
            many or more, if the newcomer is from this machine or the connection never sent anything.
        spoken_seconds: The same for any other connection; a working client sends a heartbeat every 30 s.
    """

    count_max: int = 10_000
    of_network_max: int = 200
    of_network_key: str = "connectionsPerAddressMax"
    idle_seconds_max: float = 120.0
    unspoken_seconds: float = 2.0
    spoken_seconds: float = 40.0


class ServedProtocol(asyncio.Protocol):
    """Base class of protocols that serve an accepted connection of a listening port (`Door`).

    Attributes:
        has_read: Whether bytes were received since the door last checked. The protocol sets it, the door clears it.
    """

    __slots__ = ()
    has_read: bool

    @property
    def is_busy(self) -> bool:
        """Whether a request is in progress, which protects the connection from most newcomers; by default False."""
        return False

    def abort(self) -> None:
        """Close the connection immediately; a subclass implements this."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connection because the door closes; a protocol may first send what was written."""
        self.abort()


class OpenConnection:
    """An accepted connection of a listening port (`Door`).

    Attributes:
        accepted: The connection as accepted.
        address: "ip:port" of the peer.
        ip: Its IP address; an IPv4 address mapped into IPv6 is shown as IPv4.
        is_on_own_machine: Whether it is on this machine and this machine is trusted.
        network: Network that the connection counts towards.
        protocol: What serves it; set once it is let in.
        attaching: The task that attaches the protocol; None before and afterwards.
        has_spoken: Whether it had sent anything by the last check.
        silent_since: Monotonic time in seconds of the last check that found new bytes, at first of being let in.
    """

    __slots__ = (
        "accepted", "address", "attaching", "has_spoken", "ip", "is_on_own_machine", "network",
        "protocol", "silent_since",
    )  # fmt: skip
    protocol: ServedProtocol

    def __init__(self, accepted: Accepted, *, is_own_machine_trusted: bool = True) -> None:
        host, port = accepted.remote
        self.accepted = accepted
        self.address = join_address(host, port)
        self.ip = _ip_of(host)
        self.is_on_own_machine = is_own_machine_trusted and is_own_machine(
            self.ip, _ip_of(accepted.local_ip)
        )
        self.network = network_of(self.ip, is_own=self.is_on_own_machine)
        self.attaching: asyncio.Task[None] | None = None
        self.has_spoken = False
        self.silent_since = 0.0

    def drop(self, why: str) -> None:
        """Log the reason and close the connection immediately, even if its protocol does not have it yet."""
        _log.info("closing %s: %s", self.address, why)
        self.protocol.abort()
        if self.attaching is not None:
            self.attaching.cancel()


def _ip_of(host: str) -> str:
    """Return the IP of a socket as `plain_ip` does, but without parsing IPv4, which takes as long as an accept."""
    return plain_ip(host) if ":" in host else host


def network_of(ip: str, *, is_own: bool) -> str:
    """Return the network that a connection counts towards: an IPv4 address, an IPv6 /64, or this machine if `is_own`.

    `ip` is the address of the peer as returned by `plain_ip`.
    """
    if is_own:
        return OWN_MACHINE
    if ":" not in ip:
        return ip
    # A single customer owns at least a /64, with more addresses than can be counted one by one.
    return ip_address(ip).packed[:8].hex(":", 2) + "::/64"


class Connections:
    """The open accepted connections of a listening port (`Door`), with their limits."""

    def __init__(self, bounds: Bounds, clock: Clock) -> None:
        """Start without connections; `limit_to_descriptors` may lower the largest number, `clock` measures silence."""
        self._bounds = bounds
        self._count_max = bounds.count_max
        self._number_max = 1 << 30
        self._clock = clock
        self._open: dict[ServedProtocol, OpenConnection] = {}
        self._of_network: Counter[str] = Counter()
        self._looked = float("-inf")
        self._silent: deque[OpenConnection] = deque()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[OpenConnection]:
        """Iterate over a snapshot of the open connections."""
        return iter(list(self._open.values()))

    def limit_to_descriptors(self) -> None:
        """Lower the maximum, if needed, so that descriptors remain for files of the process; if so, log it."""
        self._number_max = descriptors.for_connections()
        if self._number_max < self._count_max:
            _log.warning(
                "at most %d connections are accepted: this process may open %d file descriptors (ulimit -n), and its "
                "files need some of them",
                self._number_max, descriptors.limit(),
            )  # fmt: skip
            self._count_max = self._number_max

    def refusal(self, newcomer: OpenConnection) -> str | None:
        """Return why there is no room for a newcomer; None if there is, perhaps because another one was closed."""
        count, network = len(self._open), newcomer.network
        of_network = self._of_network[network]
        if of_network >= self._bounds.of_network_max and network != OWN_MACHINE:
            key = self._bounds.of_network_key
            remedy = f"; raise {key} if many clients share an address" if key else ""
            return f"its address already has {of_network} open connections{remedy}"
        is_full = count >= self._count_max or (
            # Descriptors are assigned from the lowest free number: a high one means that few are left. Even if files
            # occupy most of them, connections may use a quarter.
            newcomer.accepted.number >= self._number_max and count >= self._number_max // 4
        )
        if is_full and not self._make_room(newcomer):
            return f"{count} connections are already open"
        return None

    def add(self, connection: OpenConnection) -> None:
        """Count a connection for which there is room; its time of silence begins now."""
        connection.silent_since = self._clock.monotonic()
        self._open[connection.protocol] = connection
        self._of_network[connection.network] += 1

    def forget(self, protocol: ServedProtocol) -> None:
        """Stop counting the connection of a protocol, if it is still counted."""
        connection = self._open.pop(protocol, None)
        if connection is None:
            return
        network = connection.network
        self._of_network[network] -= 1
        if not self._of_network[network]:
            del self._of_network[network]

    def look(self) -> None:
        """Note for each connection that has sent bytes since the last call that its silence begins now."""
        now = self._clock.monotonic()
        for protocol, connection in self._open.items():
            if protocol.has_read:
                protocol.has_read = False  # type: ignore[misc]  # Subclasses have it.
                connection.has_spoken, connection.silent_since = True, now

    def overdue(self) -> list[tuple[OpenConnection, float]]:
        """Return the connections that are silent for too long, each with its limit in seconds."""
        self.look()
        now, idle = self._clock.monotonic(), self._bounds.idle_seconds_max
        first = min(FIRST_BYTE_SECONDS, idle)
        limits = ((each, idle if each.has_spoken else first) for each in self._open.values())
        return [(each, limit) for each, limit in limits if now - each.silent_since >= limit]

    def _make_room(self, newcomer: OpenConnection) -> bool:
        """Close a silent connection of the most crowded address if a newcomer may replace it; return whether it may."""
        connection = self._longest_silent()
        if connection is None:
            return False
        is_busy = connection.protocol.is_busy
        counts, silent = self._of_network, self._clock.monotonic() - connection.silent_since
        is_fair = counts[newcomer.network] < counts[connection.network] // 2
        may_go = is_fair or (not is_busy and silent >= self._patience(connection, newcomer))
        if may_go:
            self.forget(connection.protocol)
            connection.drop(
                "it was silent for the longest time, and a new connection needs its place"
            )
        elif is_busy:
            self._silent.clear()  # Others may be idle by now.
        return may_go

    def _longest_silent(self) -> OpenConnection | None:
        """Return the first candidate for closing that is still silent, scanning if due; None if none is known."""
        while True:
            while self._silent:
                protocol = self._silent[0].protocol
                if protocol in self._open and not protocol.has_read:
                    return self._silent[0]
                self._silent.popleft()
            now = self._clock.monotonic()
            if now - self._looked < len(self._open) * _LOOK_SECONDS_EACH:
                return None
            self._looked = now
            self._find_silent()

    def _find_silent(self) -> None:
        """Collect candidates for closing at the address with the most connections: first idle ones that never sent."""
        self.look()
        crowded = self._of_network.most_common(1)[0][0]
        silent = [each for each in self._open.values() if each.network == crowded]
        silent.sort(
            key=lambda each: (each.protocol.is_busy, each.has_spoken, each.silent_since)
        )
        self._silent.extend(itertools.islice(silent, _FOUND_MAX))

    def _patience(self, connection: OpenConnection, newcomer: OpenConnection) -> float:
        """Return the seconds of silence after which a newcomer of a crowded address may replace an idle connection."""
        is_urgent = newcomer.network == OWN_MACHINE or not connection.has_spoken
        return self._bounds.unspoken_seconds if is_urgent else self._bounds.spoken_seconds
