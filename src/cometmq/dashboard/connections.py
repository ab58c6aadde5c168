"""Limits the browser connections of the dashboard, so that idle connections cannot make the dashboard unreachable.

uvicorn can limit their number and answers 503 beyond it. But it waits forever for the head of a request, and does not
count a connection until its TLS handshake is done, for which asyncio allows 60 s. Here handshake and head have 10 s
each, and beyond a limit a new connection replaces the one that has been silent for longest, if any is silent.
"""

import asyncio
import contextlib
import socket
from collections.abc import Collection
from typing import Any, Protocol

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

CONNECTIONS_MAX = 200
OF_ADDRESS_MAX = 50
HEAD_SECONDS = 10.0
UNREAD_SECONDS = 30.0


class Guest(Protocol):
    """A browser connection that counts towards the limits.

    Attributes:
        address: IP address of the browser.
        silent_since: Loop time, seconds, when it was accepted (and its TLS set up), or its last answer was complete.
    """

    address: str
    silent_since: float

    @property
    def is_asked(self) -> bool:
        """Whether a request's head was received and its answer is not complete yet."""
        ...

    def leave(self) -> None:
        """Close the connection at once."""
        ...


class ConnectionPlaces:
    """All browser connections of a dashboard, with limits in total and, except for `proxies`, per address."""

    def __init__(self, proxies: Collection[str]) -> None:
        self._proxies = proxies
        self._guests: set[Guest] = set()

    def enter(self, guest: Guest) -> None:
        """Add a connection; beyond a limit, close the longest silent one counted, or the new one if none is silent."""
        self._guests.add(guest)
        there = self._guests
        near = {each for each in there if each.address == guest.address}
        if len(near) > OF_ADDRESS_MAX and guest.address not in self._proxies:
            there = near
        elif len(there) <= CONNECTIONS_MAX:
            return
        silent = [each for each in there if each is not guest and not each.is_asked]
        leaving = min(silent, key=lambda each: each.silent_since, default=guest)
        self.leave(leaving)
        leaving.leave()

    def leave(self, guest: Guest) -> None:
        """Remove a connection from the counts, without closing it."""
        self._guests.discard(guest)


class Handshake:
    """A connection in its TLS handshake, a `Guest` that is silent since it was accepted."""

    is_asked = False

    def __init__(self, connection: socket.socket, address: str, now: float) -> None:
        self.address = address
        self.silent_since = now
        self._connection = connection

    def leave(self) -> None:
        """Close the connection at once; the handshake fails."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)


class PageProtocol(H11Protocol):
    """The HTTP/1.1 protocol of one browser connection, a `Guest`.

    Args:
        places: All connections of the dashboard.
        handshake: TLS handshake of this connection, which replaces it in `places`; None without TLS.
        made: Arguments that uvicorn passes to its protocols.
    """

    def __init__(
        self, places: ConnectionPlaces, handshake: Handshake | None = None, **made: Any
    ) -> None:
        super().__init__(**made)
        self.address = ""
        self.silent_since = 0.0
        self._places = places
        self._handshake = handshake
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, which may close it or another one; close it if no request's head arrives in HEAD_SECONDS."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self.silent_since = self.loop.time()
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.leave)
        if self._handshake is not None:
            self._places.leave(self._handshake)
        self._places.enter(self)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; stop the head timeout if a request is being answered, else start it unless it runs."""
        super().data_received(data)
        if self.is_asked:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None
        elif self._head_timer is None:  # The connection's next request begins.
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.leave)

    def on_response_complete(self) -> None:
        """Note the time; uvicorn then waits for the next request, or closes the connection."""
        self.silent_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Close the connection if the browser does not resume reading within UNREAD_SECONDS."""
        super().pause_writing()
        self._unread_timer = self.loop.call_later(UNREAD_SECONDS, self.leave)

    def resume_writing(self) -> None:
        """Cancel the timeout of `pause_writing`, because the browser has read."""
        if self._unread_timer is not None:
            self._unread_timer.cancel()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection and its timeouts."""
        self._places.leave(self)
        for timer in (self._head_timer, self._unread_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    # --- bounds

    @property
    def is_asked(self) -> bool:
        """Whether a request's head was received and its answer is not complete yet."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn also sets it to None.
        return cycle is not None and not cycle.response_complete

    def leave(self) -> None:
        """Close the connection at once."""
        self.transport.abort()
