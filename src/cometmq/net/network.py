"""The interface of a network: listening addresses and accepted connections.

`TcpNetwork` uses the machine's sockets (net.tcp_network); virtual time uses connections in memory (net.memory_network).
`net.loop.loop_network` returns the one of the running loop. Clients connect with the loop's `create_connection`.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from cometmq.net.tls import ServerTls


class Accepted(Protocol):
    """An accepted connection, which the server attaches to a protocol or closes."""

    @property
    def remote(self) -> tuple[str, int]:
        """Address and port of the peer."""
        ...

    @property
    def local_ip(self) -> str:
        """Local address that the peer connected to."""
        ...

    @property
    def number(self) -> int:
        """Number of the file descriptor, which indicates how many are open; 0 in memory."""
        ...

    async def attach(self, protocol: asyncio.Protocol, tls: ServerTls | None = None) -> None:
        """Deliver received bytes to a protocol, decrypted if `tls` is given and the peer uses TLS.

        Raises:
            NetError, OSError: The connection cannot be set up, for example as its TLS handshake fails.
        """
        ...

    def close(self) -> None:
        """Reject the connection; allowed only before `attach`, or if that failed or was cancelled."""
        ...


OnAccepted = Callable[[Accepted], None]


class Bound(Protocol):
    """A reserved address of a server."""

    @property
    def port(self) -> int:
        """The reserved port; never 0."""
        ...

    def listen(self, on_accepted: OnAccepted) -> None:
        """Accept connections from now on and call `on_accepted` with each; may raise OSError."""
        ...

    def close(self) -> None:
        """Release the address and accept no more connections there; accepted ones stay open."""
        ...


class Network(Protocol):
    """A network of real sockets or of connections in memory."""

    def bind(self, host: str, port: int, *, is_shared: bool = False) -> Bound:
        """Reserve an address (port 0: a free port); raise OSError if that fails, for example as it is in use.

        With `is_shared`, other processes of the same user may reserve the same address in the same way, and the kernel
        distributes connections among them.
        """
        ...

    def own_ip(self, host: str, port: int) -> str:
        """Return the local IP of connections to a host and port; may raise OSError, for example without a route."""
        ...
