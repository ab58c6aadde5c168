"""The machine's network: TCP sockets, accepted by `net.listener`."""

import asyncio
import contextlib
import socket

from cometmq.net.listener import Listener
from cometmq.net.network import Bound, OnAccepted
from cometmq.net.tls import HANDSHAKE_SECONDS, SHUTDOWN_SECONDS, ServerTls


class TcpNetwork:
    """The machine's network; implements `Network` with TCP sockets."""

    def bind(self, host: str, port: int) -> Bound:
        """Bind a socket (see `Network`)."""
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with contextlib.ExitStack() as on_failure:
            taken = on_failure.enter_context(socket.socket(family, kind, protocol))
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(address)
            on_failure.pop_all()
        return _BoundSocket(taken)

    def own_ip(self, host: str, port: int) -> str:
        """Return the address that the kernel would send from (see `Network`); sends nothing."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((host, port))
            own: str = probe.getsockname()[0]
            return own


class _BoundSocket:
    """A bound TCP socket; implements `Bound`, the reserved address of a server."""

    def __init__(self, taken: socket.socket) -> None:
        self.port: int = taken.getsockname()[1]
        self._taken = taken
        self._listener: Listener | None = None

    def listen(self, on_accepted: OnAccepted) -> None:
        """Accept connections from now on (see `Bound`)."""

        def accepted(connection: socket.socket, name: tuple[str, int]) -> None:
            on_accepted(_AcceptedSocket(connection, name))

        self._listener = Listener(self._taken, accepted)
        self._listener.start()

    def close(self) -> None:
        """Release the address (see `Bound`)."""
        if self._listener is None:
            self._taken.close()
        else:
            self._listener.close()


class _AcceptedSocket:
    """An accepted TCP connection that is not read yet; the server attaches a protocol or closes it (`Accepted`)."""

    __slots__ = ("_connection", "local_ip", "number", "remote")

    def __init__(self, connection: socket.socket, name: tuple[str, int]) -> None:
        self.remote = name
        self.local_ip: str = connection.getsockname()[0]
        self.number = connection.fileno()
        self._connection = connection

    async def attach(self, protocol: asyncio.Protocol, tls: ServerTls | None = None) -> None:
        """Deliver received bytes to a protocol (see `Accepted`)."""
        loop = asyncio.get_running_loop()
        context = None if tls is None else await tls.context_for(self._connection)
        if context is None:
            await loop.connect_accepted_socket(lambda: protocol, self._connection)
        else:
            await loop.connect_accepted_socket(
                lambda: protocol,
                self._connection,
                ssl=context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            )

    def close(self) -> None:
        """Reject the connection (see `Accepted`)."""
        self._connection.close()
