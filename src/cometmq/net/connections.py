"""The connections of a server: how many are allowed, and which one is closed for a newcomer.

Idle connections never keep a newcomer out. A full server closes the connection that has been silent longest, of the
address with the most connections: immediately if the newcomer's address has less than half as many, otherwise only
after some time of silence. One address can therefore fill a server but not lock out others, and tools on this machine
get in even if this machine filled the server.
"""

import itertools
import logging
from collections import Counter, deque
from collections.abc import Iterator
from ipaddress import ip_address
from typing import TYPE_CHECKING

from cometmq.model.clock import Clock
from cometmq.process import descriptors

if TYPE_CHECKING:
    from cometmq.net.peer import Peer

_log = logging.getLogger(__name__)

# Seconds of silence before a connection may be closed for a newcomer of this machine, or if it never sent anything.
UNSPOKEN_SECONDS = 2.0
# The same for any other connection; a working client sends a heartbeat every 30 s.
SPOKEN_SECONDS = 40.0
# Scanning 10,000 connections takes about 2 ms: minimum seconds between scans, and candidates kept for closing.
_LOOK_SECONDS = 0.1
_FOUND_MAX = 256
# Default maximum of connections per address other than this machine.
COUNT_MAX = 200
# Network name of connections from this machine.
OWN_MACHINE = "this machine"


class Connections:
    """The open connections of a server."""

    def __init__(
        self, count_max: int, clock: Clock, *, of_network_max: int = COUNT_MAX
    ) -> None:
        """Allow `count_max` connections, and `of_network_max` per address (IPv6: per /64) other than this machine.

        `limit_to_descriptors` may lower `count_max`; `clock` measures silence.
        """
        self._count_max = count_max
        self._of_network_max = of_network_max
        self._number_max = 1 << 30
        self._clock = clock
        self._peers: set[Peer] = set()
        self._of_network: Counter[str] = Counter()
        self._looked = float("-inf")
        self._silent: deque[Peer] = deque()

    def __len__(self) -> int:
        return len(self._peers)

    def __iter__(self) -> "Iterator[Peer]":
        """Iterate over a snapshot of the open connections."""
        return iter(list(self._peers))

    def limit_to_descriptors(self) -> None:
        """Lower the maximum so that enough file descriptors remain for the store."""
        self._number_max = descriptors.for_connections()
        if self._number_max < self._count_max:
            _log.warning(
                "at most %d connections: this process may have %d descriptors (ulimit -n), and its "
                "files need some",
                self._number_max, descriptors.limit(),
            )  # fmt: skip
            self._count_max = self._number_max

    def admit(self, peer: "Peer", number: int) -> bool:
        """Add a connection, closing another one if needed; return False if there is no room.

        Args:
            peer: The new connection.
            number: Its file descriptor. The kernel assigns the lowest free number, so a high one means that few are left.
        """
        count = len(self._peers)
        of_network = self._of_network[peer.network]
        if of_network >= self._of_network_max and peer.network != OWN_MACHINE:
            _log.warning(
                "refusing a connection from %s: it has %d already; raise connectionsPerAddressMax where many "
                "clients share an address",
                peer.network, of_network,
            )  # fmt: skip
            return False
        is_full = count >= self._count_max or (
            # Even if files occupy most descriptors, connections may use a quarter of them.
            number >= self._number_max and count >= self._number_max // 4
        )
        if is_full and not self._make_room(peer):
            _log.warning(
                "refusing a connection from %s: %d are open already", peer.network, count
            )
            return False
        self._peers.add(peer)
        self._of_network[peer.network] += 1
        return True

    def forget(self, peer: "Peer") -> bool:
        """Remove a closed connection and return whether it was known."""
        if peer not in self._peers:
            return False
        self._peers.discard(peer)
        self._of_network[peer.network] -= 1
        if not self._of_network[peer.network]:
            del self._of_network[peer.network]
        return True

    def look(self) -> None:
        """Update since when each connection is silent; a read only sets a flag, to keep it cheap."""
        now = self._clock.monotonic()
        for peer in self._peers:
            if peer.has_read:
                peer.has_read, peer.has_spoken, peer.silent_since = False, True, now

    def silent_for(self, seconds: float) -> "list[Peer]":
        """Return the connections that had been silent for `seconds` at the last `look`."""
        latest = self._clock.monotonic() - seconds
        return [peer for peer in self._peers if peer.silent_since <= latest]

    def _make_room(self, newcomer: "Peer") -> bool:
        """Close a silent connection in favour of the newcomer; return whether there was one."""
        now = self._clock.monotonic()
        if not self._silent and now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            self._find_silent()
        while self._silent:
            peer = self._silent[0]
            if peer not in self._peers or peer.has_read:
                self._silent.popleft()
                continue
            is_fair = self._of_network[newcomer.network] < self._of_network[peer.network] // 2
            may_go = is_fair or now - peer.silent_since >= _patience(peer, newcomer)
            if may_go:
                self._silent.popleft()
                peer.drop("silent for longest, and others wait for a connection")
            return may_go
        return False

    def _find_silent(self) -> None:
        """Collect candidates for closing at the busiest address: those that never sent first, then by silence."""
        self.look()
        crowded = self._of_network.most_common(1)[0][0]
        silent = [peer for peer in self._peers if peer.network == crowded]
        silent.sort(key=lambda peer: (peer.has_spoken, peer.silent_since))
        self._silent.extend(itertools.islice(silent, _FOUND_MAX))


def _patience(peer: "Peer", newcomer: "Peer") -> float:
    """Return the seconds of silence after which a newcomer of the same address replaces a connection."""
    is_urgent = newcomer.network == OWN_MACHINE or not peer.has_spoken
    return UNSPOKEN_SECONDS if is_urgent else SPOKEN_SECONDS


def network_of(ip: str, *, is_own: bool) -> str:
    """Return the network that a connection counts towards: an IPv4 address, an IPv6 /64, or this machine.

    Args:
        ip: Address of the peer, normalized by `plain_ip`.
        is_own: Whether the peer is this machine.
    """
    if is_own:
        return OWN_MACHINE
    if ":" not in ip:
        return ip
    # A single customer owns at least a /64, with more addresses than can be counted one by one.
    return ip_address(ip).packed[:8].hex(":", 2) + "::/64"
