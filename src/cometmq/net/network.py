"""The interface of a network: addresses to listen on, connections that come, connections to others.

`TcpNetwork` has the machine's sockets (net.tcp_network); under virtual time connections are in memory
(net.memory_network). Which one it is, the running loop knows (`net.loop.loop_network`), and a client connects by
that loop's `create_connection` to either.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from cometmq.net.tls import ServerTls


class Accepted(Protocol):
    """A connection that was accepted, and of which nothing is read yet."""

    @property
    def remote(self) -> tuple[str, int]:
        """Address and port that it comes from."""
        ...

    @property
    def local_ip(self) -> str:
        """The address that it came to."""
        ...

    @property
    def number(self) -> int:
        """The number of the descriptor, by which is seen how many are open."""
        ...

    async def attach(self, protocol: asyncio.Protocol, tls: ServerTls | None = None) -> None:
        """Let a protocol have what comes, decrypted where it is TLS and `tls` is there.

        Raises:
            NetError, OSError: it is not served.
        """
        ...

    def close(self) -> None:
        """Turn the connection away; only before `attach`, or when that has failed."""
        ...


OnAccepted = Callable[[Accepted], None]


class Bound(Protocol):
    """An address that was taken, so that nobody else can."""

    @property
    def port(self) -> int:
        """The port that was taken, also where any free one was asked for."""
        ...

    def listen(self, on_accepted: OnAccepted) -> None:
        """Accept connections from now on."""
        ...

    def close(self) -> None:
        """Give the address up; connections that were accepted stay."""
        ...


class Network(Protocol):
    """A network: real sockets, or connections in memory."""

    def bind(self, host: str, port: int) -> Bound:
        """Take an address; port 0 takes any that is free.

        Raises:
            OSError: it is taken, or none of this machine's.
        """
        ...

    def own_ip(self, host: str, port: int) -> str:
        """The address of this machine on the way to another.

        Raises:
            OSError: there is no way.
        """
        ...
