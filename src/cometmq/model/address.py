"""Addresses of programs as text: "host:port", IPv6 as "[ip]:port"."""

from cometmq.model.numbers import whole_number

PORT_MAX = 65535


def without_brackets(host: str) -> str:
    """Return a host in the form that sockets accept, without the brackets of an IPv6 address such as "[::1]"."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of an address to connect to; raise ValueError without a host or a port from 1 to 65535.

    Event loops treat invalid ports differently: some connect to the port modulo 65536.
    """
    host, _, digits = address.rpartition(":")
    host, port = without_brackets(host), whole_number(digits)
    if not host or port is None or not 0 < port <= PORT_MAX:
        raise ValueError(f"an address must be host:port, with a port from 1 to {PORT_MAX}")
    return host, port
