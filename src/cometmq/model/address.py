"""Addresses of programs as text: "host:port", IPv6 as "[ip]:port"."""

from collections.abc import Sequence
from ipaddress import ip_address
from typing import NamedTuple

from cometmq.model.errors import SettingsError
from cometmq.model.numbers import whole_number

PORT_MAX = 65535


def without_brackets(host: str) -> str:
    """Return a host in the form that sockets accept, without the brackets of an IPv6 address such as "[::1]"."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback IP, which only its own machine can reach, or "localhost"."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_ip(host: str) -> bool:
    """Return whether a host is an IP address, an IPv6 one without brackets."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def join_address(host: str, port: int) -> str:
    """Return "host:port", with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of an address to connect to; raise ValueError without a host or a port from 1 to 65535.

    Event loops treat invalid ports differently: some connect to the port modulo 65536.
    """
    host, _, digits = address.rpartition(":")
    host, port = without_brackets(host), whole_number(digits)
    if not host or port is None or not 0 < port <= PORT_MAX:
        raise ValueError(f"an address must be host:port, with a port from 1 to {PORT_MAX}")
    return host, port


class PortClaim(NamedTuple):
    """A port that a program is going to listen on.

    Attributes:
        key: The setting that decides about it.
        host: The address to listen on, or its name.
        port: The port; not 0.
        is_needed: Whether the program does not start without it.
    """

    key: str
    host: str
    port: int
    is_needed: bool


def metrics_claim(host: str, port: int) -> PortClaim:
    """Return the port of /metrics as a `PortClaim` that is not needed: a program starts without it, too."""
    return PortClaim("metricsPromExporterPort", host, port, is_needed=False)


def check_collisions(claims: Sequence[PortClaim]) -> None:
    """Raise SettingsError if two ports that a program needs have the same number."""
    needed = [claim for claim in claims if claim.is_needed]
    for number, claim in enumerate(needed):
        for other in needed[:number]:
            if claim.port == other.port:
                raise SettingsError(
                    f"{claim.key}={claim.port}: {other.key} is the same port; set them to different ports"
                )
