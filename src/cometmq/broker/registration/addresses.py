"""Determines the address on which a broker listens, and the address that it registers.

Behind NAT or in a container, no local interface has the address `brokerIP1`. Connections to it arrive at an unknown
interface, so the broker then listens on all of them, as RocketMQ does by default, and logs that; `bindAddress` selects one.

A host name in `brokerIP1` or `bindAddress` is resolved once, at the start. Others get the IP, which is also stored in
records and message ids. Slaves resolve a name in `brokerIP2`.
"""

import errno
import logging
import os
import re
import socket
from ipaddress import ip_address
from random import Random
from typing import NamedTuple

from cometmq.broker.settings.broker_settings import LOOPBACK, BrokerSettings
from cometmq.codec.message_id import UniqueIds
from cometmq.model.address import split_address, without_brackets
from cometmq.model.clock import Clock
from cometmq.model.errors import SettingsError
from cometmq.model.text import error_text
from cometmq.net.loop import loop_network

_log = logging.getLogger(__name__)

# An address for documentation (RFC 5737), outside every local network.
_FAR_AWAY = ("192.0.2.1", 9)
_ALL = {4: "0.0.0.0", 6: "::"}  # noqa: S104  Logged when used; see above.
_HOST_NAME = re.compile(r"[A-Za-z0-9._-]+")
UNSPECIFIED_HOSTS = frozenset(_ALL.values())


class Addresses(NamedTuple):
    """The registered IP, and the host that is listened on."""

    told_ip: str
    listen_host: str


def addresses_of(settings: BrokerSettings) -> Addresses:
    """Return the addresses for these settings, and log warnings; raise SettingsError if one is malformed or not resolved."""
    _check_told_to_slaves(settings.ha_ip)
    bound = settings.bind_address
    host = LOOPBACK if bound is None else _ip_of("bindAddress", bound)
    if settings.broker_ip is None:
        told = _own_ip(host)
    else:
        told = _ip_of("brokerIP1", settings.broker_ip)
        if bound is None:
            host = told
        if bound is None and not _is_here(told):
            host = _ALL[ip_address(told).version]
            _log.warning(
                "brokerIP1=%s is not an address of this machine (NAT or a container?), so the broker listens on all "
                "of its addresses, %s; set bindAddress to choose one",
                told, host,
            )  # fmt: skip
    if ip_address(told).is_loopback:
        _warn_of_loopback(Addresses(told, host), settings)
    return Addresses(told, host)


def _check_told_to_slaves(host: str | None) -> None:
    """Raise SettingsError for a `brokerIP2` that is no IP or host name; slaves resolve a name, so it may be unknown here."""
    if not host or _is_ip(host) or _HOST_NAME.fullmatch(host):
        return
    try:
        meant, _ = split_address(host)
    except ValueError:
        meant = "10.0.0.1"
    raise SettingsError(
        f"brokerIP2={host}: it must be an IP address or a host name without a port, because slaves get it with "
        f"haListenPort (listenPort + 1); write brokerIP2={meant}"
    )


def _warn_of_loopback(addresses: Addresses, settings: BrokerSettings) -> None:
    """Warn that other machines cannot reach a broker on loopback, if its settings suggest that they should."""
    told, host = addresses
    remote = [each for each in settings.nameserver_addresses if not _is_loopback(each)]
    if settings.bind_address is None and (settings.broker_ip is not None or remote):
        _log.warning(
            "listening on loopback only, %s: other machines cannot connect, even through a published port of a container; "
            "write bindAddress=%s to listen on all addresses",
            host, _ALL[ip_address(host).version],
        )  # fmt: skip
    if remote:
        _log.warning(
            "this broker registers at nameserver %s with the address %s, which other machines cannot reach; "
            "set brokerIP1 or bindAddress to an address of this machine that its clients can reach",
            ", ".join(remote), told,
        )  # fmt: skip


def _is_loopback(address: str) -> bool:
    host = without_brackets(address.rpartition(":")[0])
    return ip_address(host).is_loopback if _is_ip(host) else host == "localhost"


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
    """Return `ip`, or if it means "every address", the one from which this host sends to the Internet (or loopback)."""
    if not ip_address(ip).is_unspecified:
        return ip
    try:
        return loop_network().own_ip(*_FAR_AWAY)
    except OSError:
        return LOOPBACK


def _ip_of(key: str, host: str) -> str:
    """Return the IP of a setting, resolving a host name (IPv4 if it has both); raise SettingsError if that fails."""
    if _is_ip(host):
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


def _is_ip(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def unique_ids_of(ip: str, chance: Random, *, clock: Clock) -> UniqueIds:
    """Return a source of unique ids for messages without one, as a client at this address would create them."""
    return UniqueIds(
        ip=ip_address(ip).packed, pid=os.getpid(), loader=chance.getrandbits(32), clock=clock
    )


def joined(ip: str, port: int) -> str:
    """Format an address as "ip:port", IPv6 in brackets."""
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
