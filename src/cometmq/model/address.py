"""Addresses of programs as text: "host:port", IPv6 as "[ip]:port"."""

PORT_MAX = 65535
_DIGITS_MAX = len(str(PORT_MAX))


def without_brackets(host: str) -> str:
    """Return a host as sockets take it: an IPv6 address may stand in brackets, as in "[::1]:10911"."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def split_address(address: str) -> tuple[str, int]:
    """The host and the port to connect to of an address.

    Event loops differ in what they make of other ports: some connect to another one, modulo 65536.

    Raises:
        ValueError: it has no host, or no port that there is; the message says how an address is.
    """
    host, _, port = address.rpartition(":")
    is_number = port.isascii() and port.isdigit() and len(port) <= _DIGITS_MAX
    if not host or not is_number or not 0 < int(port) <= PORT_MAX:
        raise ValueError(f"an address is host:port, with a port from 1 to {PORT_MAX}")
    return without_brackets(host), int(port)
