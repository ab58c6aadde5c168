"""The connection to another member, which carries this member's messages to it."""

import asyncio
import errno
import logging
import ssl
from collections.abc import Callable
from concurrent.futures import Executor
from typing import NamedTuple, cast

from cometmq.broker.replication.group.greeting import (
    Hello,
    KnownPlaces,
    OwnGreeting,
    Unlisted,
)
from cometmq.broker.settings.group_keys import PeerAddress
from cometmq.model.clock import Clock
from cometmq.model.errors import CodecError, LinkError, SettingsError
from cometmq.model.text import error_text
from cometmq.model.tls import TlsSettings
from cometmq.net.tasks import Tasks
from cometmq.net.tls import client_context
from cometmq.replication.group.wire import Content, GroupFrames, encode_frame

_log = logging.getLogger(__name__)

PING_SECONDS = 0.5
# A connection is closed if no answer to a ping arrives for this long.
SILENCE_SECONDS = 3.0
_CONNECT_SECONDS = 2.0
# Pauses between attempts to connect, doubled from the first to the last, seconds. A process that is killed may still
# accept the first one.
_RETRY_SECONDS = 0.02
_RETRY_SECONDS_MAX = 0.3
# Messages are dropped while this many bytes wait to be sent: the group's protocol sends missing ones again.
UNSENT_SIZE_MAX = 16 << 20
_PING = encode_frame({"type": "ping"})


class PeerTransport(NamedTuple):
    """Resources for the connections to other members.

    Attributes:
        own_ip: Local address of the connections; None: any.
        tls: Settings of TLS; None for cleartext.
        pool: Threads that read certificates.
    """

    own_ip: str | None
    tls: TlsSettings | None
    pool: Executor


class _LinkConnection(asyncio.Protocol):
    """One connection: the greeting, then messages to the peer and its answers to pings."""

    def __init__(
        self, hello: Hello, clock: Clock, on_open: Callable[[KnownPlaces], None]
    ) -> None:
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.why: Exception | None = None
        self.is_open = self.was_open = False  # The greeting is over.
        self.heard_at = clock.monotonic()
        self._hello = hello
        self._on_open = on_open
        self._clock = clock
        self._frames = GroupFrames()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.heard_at = self._clock.monotonic()
        try:
            for frame in self._frames.received(data):
                if self.is_open:
                    continue  # A pong.
                answer = self._hello.answer(frame)
                if answer is None:
                    self.is_open = self.was_open = True
                    self._on_open(self._hello.known)
                else:
                    self.write(answer)
        except (CodecError, LinkError) as error:
            self.close(error)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open, self._transport = False, None
        self.why = self.why or error
        if not self.gone.done():
            self.gone.set_result(None)

    def write(self, parts: list[Content]) -> None:
        """Send a frame; drop it if the connection is closed, or 16 MiB or more wait to be sent."""
        transport = self._transport
        if transport is not None and transport.get_write_buffer_size() < UNSENT_SIZE_MAX:
            transport.writelines(parts)

    def close(self, why: Exception | None = None) -> None:
        """Close the connection and discard the messages that wait to be sent."""
        self.why = self.why or why
        if self._transport is not None:
            self._transport.abort()


class PeerLink:
    """The link to another member, which connects again whenever its connection ends.

    Attributes:
        member: Id of the other member.
        place: Its address.
        error: Why it is not connected; None while it is.
        is_unlisted: Whether the other member has refused the last greeting, because its list does not have this member.
    """

    def __init__(
        self,
        member: str,
        place: PeerAddress,
        own: OwnGreeting,
        *,
        uses: PeerTransport,
        clock: Clock,
        on_refused: Callable[[str], None],
        on_places: Callable[[KnownPlaces], None],
        on_listed: Callable[[], None],
    ) -> None:
        """Connect to `place` after `start`.

        Args:
            member: Id of the other member.
            place: Its address.
            own: Description of this member, which the greeting sends.
            uses: Resources of the connections.
            clock: The clock.
            on_refused: Called with the id if no process listens there.
            on_places: Called with the places of all members when the other one has accepted a connection.
            on_listed: Called when `is_unlisted` may have changed.
        """
        self.member = member
        self.error: str | None = "it has not been connected yet"
        self.place = place
        self._own = own
        self._uses = uses
        self._clock = clock
        self._on_refused = on_refused
        self._on_places = on_places
        self._on_listed = on_listed
        self.is_unlisted = False
        self._connection: _LinkConnection | None = None
        self._tasks = Tasks(f"member {member}")

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""
        return self._connection is not None and self._connection.is_open

    def start(self) -> None:
        """Connect, and connect again whenever the connection ends."""
        self._tasks.spawn(self._run(), "link")

    async def close(self) -> None:
        """Close the connection, and do not connect again."""
        if self._connection is not None:
            self._connection.close()
        await self._tasks.close()

    def send(self, parts: list[Content]) -> None:
        """Send a frame; it is lost if there is no connection, or too much waits to be sent."""
        connection = self._connection
        if connection is not None and connection.is_open:
            connection.write(parts)

    async def _run(self) -> None:
        pause = _RETRY_SECONDS
        while True:
            was_open = False
            try:
                self._connection = connection = await self._connect()
            # Timeouts and TLS errors are OSErrors, too; event loops raise ValueError for hosts that cannot be names.
            except (OSError, SettingsError, ValueError) as error:
                if isinstance(error, OSError) and error.errno == errno.ECONNREFUSED:
                    self._on_refused(self.member)
                self._say(f"it cannot be reached: {error_text(error) or 'it does not answer'}")
            else:
                was_open = await self._serve(connection)
            if was_open:
                pause = _RETRY_SECONDS
            else:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _RETRY_SECONDS_MAX)

    async def _connect(self) -> _LinkConnection:
        loop, uses = asyncio.get_running_loop(), self._uses
        own = None if uses.own_ip is None else (uses.own_ip, 0)
        async with asyncio.timeout(_CONNECT_SECONDS):
            context = await loop.run_in_executor(uses.pool, self._context)
            _, connection = await loop.create_connection(
                lambda: _LinkConnection(
                    Hello(self._own, self.member), self._clock, self._opened
                ),
                *self.place,
                local_addr=own,
                ssl=context,
            )
        return connection

    def _context(self) -> ssl.SSLContext | None:
        return None if self._uses.tls is None else client_context(self._uses.tls)

    def _opened(self, known: KnownPlaces) -> None:
        """Note that the peer has accepted the connection, and pass on the places that it knows."""
        self.error, self.is_unlisted = None, False
        self._on_listed()
        self._on_places(known)

    async def _serve(self, connection: _LinkConnection) -> bool:
        """Ping the peer until the connection ends, or close it when silent; return whether the greeting succeeded."""
        while not connection.gone.done():
            if connection.is_open:
                connection.write(_PING)
            if self._clock.monotonic() - connection.heard_at > SILENCE_SECONDS:
                connection.close(LinkError(f"it was silent for {SILENCE_SECONDS:g} s"))
            await asyncio.wait([connection.gone], timeout=PING_SECONDS)
        self._connection = None
        self.is_unlisted = isinstance(connection.why, Unlisted)
        self._on_listed()
        self._say(str(connection.why or "it closed the connection"))
        return connection.was_open

    def _say(self, error: str) -> None:
        if error != self.error:
            _log.warning("member %s at %s:%d: %s", self.member, *self.place, error)
        self.error = error
