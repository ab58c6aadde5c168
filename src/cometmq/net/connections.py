"""The connections of a server: how many there may be, and who goes when there are too many.

A new one is never shut out by those that only sit there. When the server is full, the connection that has been
silent longest goes, of the address that has most of them: at once for a newcomer whose address has less than
half as many, and else when it has been silent for a while. So one address can fill a server, but
keep nobody else out of it, and the tools of the own machine get in where it is the own machine that fills it.
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

# A connection that never said anything may be closed for a newcomer after this; and any for one of the own machine.
UNSPOKEN_SECONDS = 2.0
# One that spoke once: an honest client has a heartbeat each 30 s.
SPOKEN_SECONDS = 40.0
# Looking through all connections takes about 2 ms of 10,000: once in this time, and then for so many newcomers.
_LOOK_SECONDS = 0.1
_FOUND_MAX = 256
# Of one address that is not this machine, where nothing else is said.
COUNT_MAX = 200
# The network of those that come from this machine.
OWN_MACHINE = "this machine"


class Connections:
    """The open connections of a server."""

    def __init__(
        self, count_max: int, clock: Clock, *, of_network_max: int = COUNT_MAX
    ) -> None:
        """Begin without any.

        Args:
            count_max: what the settings say; descriptors may bound it further, see `limit_to_descriptors`.
            clock: time.
            of_network_max: of one address (IPv6: of a /64) that is not this machine.
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
        """The number of open connections."""
        return len(self._peers)

    def __iter__(self) -> "Iterator[Peer]":
        """The connections open now; they may come and go meanwhile."""
        return iter(list(self._peers))

    def limit_to_descriptors(self) -> None:
        """Leave descriptors to the store, whatever the settings say."""
        self._number_max = descriptors.for_connections()
        if self._number_max < self._count_max:
            _log.warning(
                "at most %d connections: this process may have %d descriptors (ulimit -n), and its "
                "files need some",
                self._number_max, descriptors.limit(),
            )  # fmt: skip
            self._count_max = self._number_max

    def admit(self, peer: "Peer", number: int) -> bool:
        """Take one more connection, for which another may have to go; False where there is no room.

        Args:
            peer: the newcomer.
            number: of its descriptor. The kernel gives the least that is free, so a great one says that few
                are left, whoever has them.
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
            # Where files have taken them, a quarter is left to connections all the same.
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
        """A connection is gone; whether it was known."""
        if peer not in self._peers:
            return False
        self._peers.discard(peer)
        self._of_network[peer.network] -= 1
        if not self._of_network[peer.network]:
            del self._of_network[peer.network]
        return True

    def look(self) -> None:
        """Note who has been silent since the last look: a read only raises a flag, so that it is cheap."""
        now = self._clock.monotonic()
        for peer in self._peers:
            if peer.has_read:
                peer.has_read, peer.has_spoken, peer.silent_since = False, True, now

    def silent_for(self, seconds: float) -> "list[Peer]":
        """Connections that were silent so long at the last look."""
        latest = self._clock.monotonic() - seconds
        return [peer for peer in self._peers if peer.silent_since <= latest]

    def _make_room(self, newcomer: "Peer") -> bool:
        """Close a silent connection in place of a newcomer."""
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
        """Find connections to close first: of the busiest address, those that never spoke or are silent longest."""
        self.look()
        crowded = self._of_network.most_common(1)[0][0]
        silent = [peer for peer in self._peers if peer.network == crowded]
        silent.sort(key=lambda peer: (peer.has_spoken, peer.silent_since))
        self._silent.extend(itertools.islice(silent, _FOUND_MAX))


def _patience(peer: "Peer", newcomer: "Peer") -> float:
    """For how long a connection must have been silent to be closed for another of the same address."""
    is_urgent = newcomer.network == OWN_MACHINE or not peer.has_spoken
    return UNSPOKEN_SECONDS if is_urgent else SPOKEN_SECONDS


def network_of(ip: str, *, is_own: bool) -> str:
    """The network to which a connection counts: an IPv4 address, an IPv6 /64, or this machine.

    Args:
        ip: the address that it comes from, plain.
        is_own: whether that is this machine.
    """
    if is_own:
        return OWN_MACHINE
    if ":" not in ip:
        return ip
    # One customer has at least such a network, with more addresses than anybody counts.
    return ip_address(ip).packed[:8].hex(":", 2) + "::/64"
