"""Determines the address on which a broker listens, and the address that it registers.

`bindAddress` selects the address to listen on. Without it, a broker in a container with a network of its own listens on all
addresses (`process.containers`). Any other broker listens on `brokerIP1`. Behind NAT, no local interface has that
address, and connections to it arrive at an unknown interface, so the broker then listens on all of them, as RocketMQ does
by default. Without `brokerIP1` it listens on loopback. The log says which.

A host name in `brokerIP1` or `bindAddress` is resolved once, at the start. Others get the IP, which is also stored in
records and message ids. Slaves resolve a name in `brokerIP2`.
"""

import contextlib
import errno
import fcntl
import logging
import os
import re
import socket
import struct
from collections.abc import Callable
from ipaddress import ip_address
from random import Random
from typing import NamedTuple

from cometmq.broker.settings.broker_settings import LOOPBACK, BrokerSettings
from cometmq.codec.message_id import UniqueIds
from cometmq.model.address import is_ip, is_loopback, split_address, without_brackets
from cometmq.model.clock import Clock
from cometmq.model.errors import SettingsError
from cometmq.model.text import error_text
from cometmq.net.loop import loop_network
from cometmq.process.containers import Container, container_with_own_network

_log = logging.getLogger(__name__)

# An address for documentation (RFC 5737), outside every local network.
_FAR_AWAY = ("192.0.2.1", 9)
_ALL = {4: "0.0.0.0", 6: "::"}  # noqa: S104  Logged when used; see above.
_HOST_NAME = re.compile(r"[A-Za-z0-9._-]+")
UNSPECIFIED_HOSTS = frozenset(_ALL.values())
# ioctl to get an interface's IPv4 address, which is at bytes 20 to 24 of `struct ifreq` (netdevice(7)).
_SIOCGIFADDR = 0x8915


class Addresses(NamedTuple):
    """The addresses of a broker.

    Attributes:
        told_ip: The IP that it registers.
        listen_host: The host that it listens on.
        container: The container because of whose network it listens on all addresses; None otherwise.
    """

    told_ip: str
    listen_host: str
    container: Container | None = None

    @property
    def is_own_machine_certain(self) -> bool:
        """Whether peers with an address of this machine may be trusted as such, unless a setting forbids it."""
        return self.container is None or self.container.is_own_machine_certain


def addresses_of(
    settings: BrokerSettings,
    *,
    find_container: Callable[[], Container | None] = container_with_own_network,
) -> Addresses:
    """Return the addresses for these settings, and log the choice; raise SettingsError if one is malformed or not resolved."""
    _check_told_to_slaves(settings.ha_ip)
    told = settings.broker_ip and _ip_of("brokerIP1", settings.broker_ip)
    container = None
    if settings.bind_address is not None:
        host = _ip_of("bindAddress", settings.bind_address)
    elif container := find_container():
        host = _ALL[ip_address(told).version if told else 4]
        _log.info(
            "this is a %s container (%s) with a network of its own, so the broker listens on all of its addresses, %s; "
            "set bindAddress to choose one",
            container.kind, container.mark, host,
        )  # fmt: skip
    elif told is None or _is_here(told):
        host = told or LOOPBACK
    else:
        host = _ALL[ip_address(told).version]
        _log.warning(
            "brokerIP1=%s is not an address of this machine (NAT?), so the broker listens on all of its addresses, %s; "
            "set bindAddress to choose one",
            told, host,
        )  # fmt: skip
    addresses = Addresses(told or _own_ip(host), host, container)
    _tell_of_loopback(addresses, settings)
    return addresses


def _check_told_to_slaves(host: str | None) -> None:
    """Raise SettingsError for a `brokerIP2` that is no IP or host name; slaves resolve a name, so it may be unknown here."""
    if not host or is_ip(host) or _HOST_NAME.fullmatch(host):
        return
    try:
        meant, _ = split_address(host)
    except ValueError:
        meant = "10.0.0.1"
    raise SettingsError(
        f"brokerIP2={host}: it must be an IP address or a host name without a port, because slaves get it with "
        f"haListenPort (listenPort + 1); write brokerIP2={meant}"
    )


def _tell_of_loopback(addresses: Addresses, settings: BrokerSettings) -> None:
    """Log that other machines cannot reach a broker on loopback; a warning if its settings suggest that they should."""
    told, host, _ = addresses
    remote = [each for each in settings.nameserver_addresses if not _is_near(each)]
    if settings.bind_address is None and is_loopback(host):
        _log.log(
            logging.WARNING if settings.broker_ip is not None or remote else logging.INFO,
            "listening on loopback only, %s: other machines cannot connect, even through a published port of a container; "
            "write bindAddress=%s to listen on all addresses",
            host, _ALL[ip_address(host).version],
        )  # fmt: skip
    if remote and is_loopback(told):
        _log.warning(
            "this broker registers at nameserver %s with the address %s, which other machines cannot reach; "
            "set brokerIP1 or bindAddress to an address of this machine that its clients can reach",
            ", ".join(remote), told,
        )  # fmt: skip


def _is_near(address: str) -> bool:
    return is_loopback(without_brackets(address.rpartition(":")[0]))


def _is_here(ip: str) -> bool:
    """Return whether an interface of this machine has this address; True if binding to it fails for another reason."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((ip, 0))
        except OSError as error:
            return error.errno != errno.EADDRNOTAVAIL
    return True


def _own_ip(ip: str) -> str:
    """Return `ip`, or if it means "every address", the one from which this host sends to the Internet.

    Without a route there, as in an internal network of containers, this is the first IPv4 address besides loopback, or
    loopback if there is none.
    """
    if not ip_address(ip).is_unspecified:
        return ip
    try:
        return loop_network().own_ip(*_FAR_AWAY)
    except OSError:
        return _interface_ip()


def _interface_ip() -> str:
    """Return the first IPv4 address of this machine's interfaces that is not loopback; loopback if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            asked = struct.pack("256s", name.encode())
            with contextlib.suppress(OSError):  # This interface has no address.
                ip = socket.inet_ntoa(fcntl.ioctl(probe, _SIOCGIFADDR, asked)[20:24])
                if not is_loopback(ip):
                    return ip
    return LOOPBACK


def _ip_of(key: str, host: str) -> str:
    """Return the IP of a setting, resolving a host name (IPv4 if it has both); raise SettingsError if that fails."""
    if is_ip(host):
        return host
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:  # ValueError: the name is not valid.
        why = error_text(error) if isinstance(error, OSError) else "it is not a valid name"
        raise SettingsError(
            f"{key}={host}: this name cannot be resolved ({why}); write an IP address, or a name that this "
            "machine can resolve, without a port"
        ) from error
    return str(min(found, key=lambda each: each[0] != socket.AF_INET)[4][0])


def unique_ids_of(ip: str, chance: Random, *, clock: Clock) -> UniqueIds:
    """Return a source of unique ids for messages without one, as a client at this address would create them."""
    return UniqueIds(
        ip=ip_address(ip).packed, pid=os.getpid(), loader=chance.getrandbits(32), clock=clock
    )
