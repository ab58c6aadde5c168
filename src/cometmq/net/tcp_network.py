"""The machine's network: TCP sockets.

A listening socket accepts up to 128 connections per loop iteration. uvloop's own servers accept one, so the time
until n clients are connected grows with n squared: the last of 1,000 once got its first answer after 7.7 s, here after
0.2 s.
"""

import asyncio
import contextlib
import logging
import socket

from cometmq.net.network import Bound, OnAccepted
from cometmq.net.tls import HANDSHAKE_SECONDS, SHUTDOWN_SECONDS, ServerTls
from cometmq.process import descriptors

_log = logging.getLogger(__name__)

# Maximum of connections waiting to be accepted; the kernel limits it to net.core.somaxconn (4096 by default).
BACKLOG = 4096
# Maximum accepted per loop iteration, to keep it short: each takes about 100 us including its setup.
ACCEPTED_A_TURN = 128
# Pause in seconds after an error that the next accept would meet as well.
PAUSE_SECONDS = 0.1

# Errors of a connection that is already gone; others may still wait.
_GONE = (ConnectionAbortedError, InterruptedError)


class TcpNetwork:
    """The machine's network; implements `Network` with TCP sockets."""

    def bind(self, host: str, port: int, *, is_shared: bool = False) -> Bound:
        """Bind a TCP socket to the first address of a host, without listening yet; raise OSError if that fails."""
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with contextlib.ExitStack() as on_failure:
            taken = on_failure.enter_context(socket.socket(family, kind, protocol))
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if is_shared:
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            taken.bind(address)
            on_failure.pop_all()
        return _BoundSocket(taken)

    def own_ip(self, host: str, port: int) -> str:
        """Return the IP that the kernel would send from; sends nothing to the host. Raises OSError without a route."""
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
        self._loop = asyncio.get_running_loop()
        self._again: asyncio.TimerHandle | None = None

    def listen(self, on_accepted: OnAccepted) -> None:
        self._on_accepted = on_accepted
        self._taken.settimeout(0)
        self._taken.listen(BACKLOG)
        self._number_max = descriptors.for_connections()
        self._resume()

    def close(self) -> None:
        if self._again is not None:
            self._again.cancel()
        self._loop.remove_reader(self._taken)
        self._taken.close()

    def _resume(self) -> None:
        self._again = None
        self._loop.add_reader(self._taken, self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_A_TURN):
            try:
                accepted, name = self._taken.accept()
            except BlockingIOError:
                return
            except _GONE:
                continue
            except OSError as error:
                self._pause(error)
                return
            accepted.settimeout(0)
            number = accepted.fileno()
            self._on_accepted(_AcceptedSocket(accepted, name[:2]))
            if number >= self._number_max:
                # Connections that are closed for it give their descriptors back in the next iteration only.
                return

    def _pause(self, error: OSError) -> None:
        """Stop accepting for 0.1 s after an error, for example if no descriptor is free, to avoid a busy loop."""
        _log.warning("cannot accept connections: %s; trying again", error.strerror or error)
        self._loop.remove_reader(self._taken)
        self._again = self._loop.call_later(PAUSE_SECONDS, self._resume)


class _AcceptedSocket:
    """An accepted TCP connection, which the server attaches to a protocol or closes; implements `Accepted`."""

    __slots__ = ("_connection", "local_ip", "number", "remote")

    def __init__(self, connection: socket.socket, name: tuple[str, int]) -> None:
        self.remote = name
        self.local_ip: str = connection.getsockname()[0]
        self.number = connection.fileno()
        self._connection = connection

    async def attach(self, protocol: asyncio.Protocol, tls: ServerTls | None = None) -> None:
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
        self._connection.close()
