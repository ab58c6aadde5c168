"""The addresses that may copy the log: those of slaves that nameservers list (if asked), and those in the settings.

Brokers of this project register an IP; Java's register brokerIP1 as configured, which may be a host name.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from ipaddress import ip_address, ip_network

from cometmq.broker.registration.nameserver_calls import NameserverCalls
from cometmq.broker.settings.replica_keys import split_addresses
from cometmq.codec.bodies.cluster import decode_cluster_info
from cometmq.model.clock import Clock
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import CometError
from cometmq.net.own_machine import plain_ip

_log = logging.getLogger(__name__)

# Shortest interval between questions to nameservers about unknown addresses.
LOOK_SECONDS = 1.0
_TIMEOUT_MS = 3_000
_MASTER_ID = 0

FindMembers = Callable[[], Coroutine[None, None, frozenset[str]]]
IpsOf = Callable[[str], Awaitable[frozenset[str]]]


class AllowedAddresses:
    """The IPs that may copy the log.

    Attributes:
        refusal: Why others are refused, for the log.
    """

    refusal = (
        "its address is not that of a known member of this broker's group; a slave must register at a nameserver, or "
        "haAllowedAddresses must contain its address"
    )

    def __init__(self, allowed: str, find_members: FindMembers | None, clock: Clock) -> None:
        """`allowed` is haAllowedAddresses; `find_members` returns the IPs of the group's slaves (None: do not ask)."""
        self._networks = [ip_network(part) for part in split_addresses(allowed)]
        self._find_members = find_members
        self._clock = clock
        self._members: frozenset[str] = frozenset()
        self._looked_at: float | None = None
        self._looking: asyncio.Future[None] | None = None

    def has(self, ip: str) -> bool:
        """Return whether an address is known to be allowed."""
        return ip in self._members or any(ip_address(ip) in each for each in self._networks)

    def knows(self, ip: str) -> bool:
        """Return whether an address is known to be allowed; if not, look up the group's members in the background."""
        if self.has(ip):
            return True
        self._begin_look()
        return False

    async def admits(self, ip: str) -> bool:
        """Return whether an address may copy the log; if unknown, first look up the group's members, if possible.

        A lookup that began before the call does not suffice, because a slave may register and connect within the second
        in which none is repeated.
        """
        if self._find_members is None:
            return self.has(ip)
        came = self._clock.monotonic()
        while not self.has(ip):
            looked_at = self._looked_at
            if looked_at is not None and looked_at >= came:
                return False
            if looked_at is not None and self._looking is None:
                await asyncio.sleep(looked_at + LOOK_SECONDS - came)
            await self.look()
        return True

    async def look(self) -> None:
        """Look up the group's members, if possible, unless that began in the last second; wait for a running lookup."""
        self._begin_look()
        if self._looking is not None:
            await asyncio.shield(self._looking)

    def _begin_look(self) -> None:
        now = self._clock.monotonic()
        if self._looking is not None or self._find_members is None:
            return
        if self._looked_at is None or now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._looking = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        assert self._find_members is not None, "there is somebody to ask"
        try:
            self._members = await self._find_members()
        finally:
            self._looking = None


def members_by_nameservers(
    nameservers: Sequence[str], broker_name: str, calls: NameserverCalls, ips_of: IpsOf
) -> FindMembers:
    """Return a function that asks all nameservers for the IPs of a group's slaves.

    If a nameserver does not answer, or not correctly, its last answer counts. An error code counts as no slaves.

    `calls` sends the requests (GET_BROKER_CLUSTER_INFO), and `ips_of` resolves a host name.
    """
    # The last answer of each nameserver; used while it does not answer.
    said: dict[str, frozenset[str]] = {}

    async def ask(nameserver: str) -> frozenset[str]:
        try:
            answer = await calls.call(
                nameserver, RequestCode.GET_BROKER_CLUSTER_INFO, {}, b"", timeout_ms=_TIMEOUT_MS
            )
            if answer.code != ResponseCode.SUCCESS:
                return frozenset()
            group = decode_cluster_info(answer.body).brokers.get(broker_name)
        except CometError as error:
            _log.warning(
                "nameserver %s did not return the addresses of the slaves: %s",
                nameserver,
                error,
            )
            return said.get(nameserver, frozenset())
        said[nameserver] = frozenset(
            address.rpartition(":")[0].strip("[]")
            for number, address in (group.addresses.items() if group is not None else ())
            if number != _MASTER_ID
        )
        return said[nameserver]

    async def find() -> frozenset[str]:
        hosts = frozenset().union(*await asyncio.gather(*map(ask, nameservers)))
        found = (plain_ips_of(host, ips_of) for host in hosts)
        return frozenset().union(*await asyncio.gather(*found))

    return find


async def plain_ips_of(host: str, ips_of: IpsOf) -> frozenset[str]:
    """Return the IPs of a host name, or an IP as `plain_ip` writes it (Java: fd00:0:0:0:0:0:0:2 for fd00::2)."""
    try:
        return frozenset([plain_ip(host)])
    except ValueError:
        return await ips_of(host)
