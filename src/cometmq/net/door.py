"""The door of a port: listens, limits the connections, and gives each admitted one to a protocol.

Remoting (`net.server`), pages (`net.http`) and replication (`broker.replication.master_port`) each have one. A
connection is accepted, admitted by its address, counted, found to use TLS or not, and then served by its protocol. The
door closes a counted connection that sends nothing at first, is silent for too long, or has to make room for another
one (`net.connections`).
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Protocol

from cometmq.model.clock import Clock
from cometmq.model.errors import NetError
from cometmq.model.text import error_text
from cometmq.net.connections import Bounds, Connections, OpenConnection, ServedProtocol
from cometmq.net.loop import beat_later, loop_network
from cometmq.net.network import Accepted, Bound
from cometmq.net.tasks import Tasks
from cometmq.net.tls import ServerTls, follow_certificate

_log = logging.getLogger(__name__)

# Interval in seconds of the checks while a connection has something to send soon, and otherwise as a share of the idle
# limit; a connection is closed at most this much too late.
LOOK_SECONDS = 5.0
_IDLE_SHARE = 0.25
# Seconds that closing waits for what was written to be sent.
_CLOSE_SECONDS_MAX = 2
# Largest number of connections that wait to be admitted.
WAITING_MAX = 8
# Refused connections are logged at most once in so many seconds.
LINE_SECONDS = 60.0


class AddressCheck(Protocol):
    """Decides by the IP address of a peer whether it may connect (`AllowedAddresses` of the HA port).

    Attributes:
        refusal: Text for the log if an address is refused, also because too many others wait for the check.
    """

    refusal: str

    def has(self, ip: str) -> bool: ...  # noqa: D102
    async def admits(self, ip: str) -> bool: ...  # noqa: D102


class Door:
    """A server's listening addresses and the connections to them, each served by a protocol.

    Attributes:
        clock: Clock for timeouts.
        tasks: Background tasks of the protocols and for the certificate; `close` cancels them last.
        refused: Number of `refuse` calls: connections refused, not set up, or closed as faulty by some protocols.
    """

    _end_look: Callable[[], object] | None = None  # Cancels the next check.

    def __init__(
        self,
        make: Callable[[OpenConnection], ServedProtocol],
        clock: Clock,
        *,
        name: str,
        bounds: Bounds,
        tls: ServerTls | None = None,
        admission: AddressCheck | None = None,
        is_own_machine_trusted: bool = True,
        is_shared: bool = False,
    ) -> None:
        """Set the limits; `start` listens.

        `make` creates the protocol of a connection, which must call `forget` when the connection is lost; `name` is the
        port's name in logs. Without `tls` only cleartext is accepted; without `admission` peers of any address are
        admitted. With `is_shared`, other processes may listen on the same port, too.
        """
        self.clock = clock
        self.tasks = Tasks(name)
        self.refused = 0
        self._name = name
        self._refusal_logged_at, self._refusals_not_logged = float("-inf"), 0
        self._make = make
        self._tls = tls
        self._admission = admission
        self._is_own_machine_trusted = is_own_machine_trusted
        self._is_shared = is_shared
        self._connections = Connections(bounds, clock)
        self._idle_seconds = bounds.idle_seconds_max * _IDLE_SHARE
        self._look_at = 0.0  # Time of the next check, monotonic seconds.
        self._asking, self._attaching = Tasks(f"{name} asks"), Tasks(f"{name} attaches")
        self._all_gone = asyncio.Event()
        self._all_gone.set()
        # With the hosts of those that do not listen yet.
        self._bound, self._listening = list[tuple[str, Bound]](), list[Bound]()

    @property
    def peers(self) -> frozenset[ServedProtocol]:
        """Frozen set of the protocols of the counted connections, some of which may not be set up yet."""
        return frozenset(each.protocol for each in self._connections)

    @property
    def certificate_expires(self) -> float | None:
        """Time at which the certificate of this port expires, seconds since 1970; None without TLS, or if that is not known."""
        return None if self._tls is None else self._tls.expires

    # --- listen and close

    async def start(self, host: str, port: int) -> int:
        """Listen on an address and return its port, which the system chooses if `port` is 0.

        Raises:
            NetError: The server cannot listen there; the message names the address and the reason.
        """
        bound = self.bind(host, port)
        self.serve()
        return bound

    def bind(self, host: str, port: int) -> int:
        """Reserve an address for `serve` and return its port (if 0, a free one); raise NetError if that fails."""
        try:
            bound = loop_network().bind(host, port, is_shared=self._is_shared)
        except OSError as error:
            raise _cannot_listen(host, port, error) from error
        self._bound.append((host, bound))
        return bound.port

    def serve(self) -> None:
        """Accept connections at every address reserved before this call; raise NetError if listening fails."""
        if self._bound and not self._listening:
            self._connections.limit_to_descriptors()
            if self._tls is not None:
                self.tasks.spawn(follow_certificate(self._tls), "certificate")
        while self._bound:
            host, bound = self._bound.pop(0)
            self._listening.append(bound)
            try:
                bound.listen(self._accepted)
            except (
                OSError
            ) as error:  # Two programs can reserve an address, but only one can listen.
                raise _cannot_listen(host, bound.port, error) from error

    def stop_listening(self) -> None:
        """Accept no more connections; those that exist stay."""
        for bound in (*(bound for _, bound in self._bound), *self._listening):
            bound.close()
        self._bound.clear()
        self._listening.clear()

    async def close(self) -> None:
        """Stop listening, close every connection (by force if it is not gone after 2 s), and cancel `tasks`.

        Waits at most 4 s until the connections are gone.
        """
        self.stop_listening()
        await self._asking.close()
        await self._attaching.close()
        for connection in self._connections:
            connection.protocol.close()
        await self.wait_gone(_CLOSE_SECONDS_MAX)
        for connection in self._connections:
            connection.protocol.abort()  # It does not read its answers.
        await self.wait_gone(_CLOSE_SECONDS_MAX)
        if self._end_look is not None:
            self._end_look()
        await self.tasks.close()

    async def wait_gone(self, seconds: float) -> None:
        """Wait until no connection is left, but at most so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._all_gone.wait()

    # --- the steps of a connection

    def _accepted(self, accepted: Accepted) -> None:
        connection = OpenConnection(
            accepted, is_own_machine_trusted=self._is_own_machine_trusted
        )
        admission = self._admission
        if admission is None or admission.has(connection.ip):
            self._let_in(connection)
        elif len(self._asking) >= WAITING_MAX:
            self._turn_away(connection, admission.refusal)
        else:
            asking = self._asking.spawn(admission.admits(connection.ip), "ask")
            asking.add_done_callback(lambda asked: self._asked(connection, asked, admission))

    def _asked(
        self, connection: OpenConnection, asked: asyncio.Task[bool], admission: AddressCheck
    ) -> None:
        if asked.cancelled():
            connection.accepted.close()
        elif asked.exception() is None and asked.result():
            self._let_in(connection)
        else:
            self._turn_away(connection, admission.refusal)

    def _turn_away(self, connection: OpenConnection, why: str) -> None:
        connection.accepted.close()
        self.refuse(connection.address, why)

    def refuse(self, who: str, why: str) -> None:
        """Count a refused or faulty connection; at most once a minute, log it and the number of those not logged."""
        self.refused += 1
        now = self.clock.monotonic()
        if now - self._refusal_logged_at < LINE_SECONDS:
            self._refusals_not_logged += 1
            return
        more, self._refusals_not_logged = self._refusals_not_logged, 0
        self._refusal_logged_at = now
        others = f" (and {more} others since the last line)" if more else ""
        _log.warning("the %s refused %s: %s%s", self._name, who, why, others)

    def _let_in(self, connection: OpenConnection) -> None:
        """Give an admitted connection to a protocol and count it, or refuse it if there is no room."""
        refusal = self._connections.refusal(connection)
        if refusal is not None:
            self._turn_away(connection, refusal)
            return
        connection.protocol = self._make(connection)
        self._connections.add(connection)
        self._all_gone.clear()
        self.look_soon()
        connection.attaching = self._attaching.spawn(self._attach(connection), "attach")
        connection.attaching.add_done_callback(lambda _: self._attached(connection))

    async def _attach(self, connection: OpenConnection) -> None:
        try:
            await connection.accepted.attach(connection.protocol, self._tls)
        except (NetError, OSError) as error:
            why = f"the connection could not be set up: {error_text(error)}"
            self.refuse(connection.address, why)
        else:
            connection.attaching = None

    def _attached(self, connection: OpenConnection) -> None:
        """Close and forget a connection if attaching it to its protocol failed or was cancelled."""
        if connection.attaching is not None:
            connection.attaching = None
            connection.accepted.close()
            self.forget(connection.protocol)

    def forget(self, protocol: ServedProtocol) -> None:
        """Stop counting a connection, if it is counted; its protocol calls this when the connection is lost."""
        self._connections.forget(protocol)
        if not self._connections:
            self._all_gone.set()

    def look_soon(self) -> None:
        """Check within LOOK_SECONDS which connections are silent for too long, as a client must send something soon."""
        self._look_by(min(LOOK_SECONDS, self._idle_seconds))

    def _look_by(self, seconds: float) -> None:
        due = self.clock.monotonic() + seconds
        if self._end_look is not None:
            if self._look_at <= due:
                return
            self._end_look()
        self._look_at = due
        self._end_look = beat_later(seconds, self._look_around)

    def _look_around(self) -> None:
        self._end_look = None
        if self._connections:
            self._look_by(self._idle_seconds)
            if self.is_awaiting():
                self.look_soon()
        self.close_silent()

    def is_awaiting(self) -> bool:
        """Return whether to check connections again soon, because one had sent nothing by the last check.

        A subclass may add other reasons.
        """
        return not all(each.has_spoken for each in self._connections)

    def close_silent(self) -> None:
        """Close connections that are silent for too long."""
        for connection, seconds in self._connections.overdue():
            connection.drop(f"it was silent for {seconds:.0f} s")


def _cannot_listen(host: str, port: int, error: OSError) -> NetError:
    return NetError(
        f"cannot listen on {host}:{port}: {error.strerror or error} "
        "(is another broker or nameserver running there?)"
    )
