"""Connections of browsers, bounded: nobody shuts the dashboard by connections that say nothing.

uvicorn bounds how many there are, and answers 503 beyond; it waits for ever for the head of a request, and knows nothing of a connection
before its TLS handshake, which asyncio gives 60 s. Here handshake and head have 10 s each, and a newcomer beyond the bound takes the place
of the connection that has been silent for longest.
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
    """A connection that takes a place.

    Attributes:
        address: The browser's.
        silent_since: When it came, or had its last answer; seconds of the loop.
    """

    address: str
    silent_since: float

    @property
    def is_asked(self) -> bool:
        """Whether the head of a request is here, and its answer is not given yet."""
        ...

    def leave(self) -> None:
        """End the connection at once."""
        ...


class ConnectionPlaces:
    """The bounded places of all connections of a dashboard.

    Args:
        proxies: Addresses that connect for many browsers: the bound of an address is not theirs.
    """

    def __init__(self, proxies: Collection[str]) -> None:
        self._proxies = proxies
        self._guests: set[Guest] = set()

    def enter(self, guest: Guest) -> None:
        """Give a connection a place: that of the one that has been silent for longest if all are taken, or none if no other is silent."""
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
        """Take the place of a connection back."""
        self._guests.discard(guest)


class Handshake:
    """A connection whose TLS handshake is under way.

    Attributes:
        address: The browser's.
        silent_since: When it came, or had its last answer; seconds of the loop.
    """

    is_asked = False

    def __init__(self, connection: socket.socket, address: str, now: float) -> None:
        self.address = address
        self.silent_since = now
        self._connection = connection

    def leave(self) -> None:
        """End the connection at once; the handshake fails."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)


class PageProtocol(H11Protocol):
    """One connection of a browser.

    Attributes:
        address: The browser's.
        silent_since: When it came, or had its last answer; seconds of the loop.

    Args:
        places: Of all connections.
        handshake: Of this connection, whose place it takes; None without TLS.
        made: What uvicorn gives its protocols.
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
        """Begin a connection: the head of a request must be here soon."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self.silent_since = self.loop.time()
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.leave)
        if self._handshake is not None:
            self._places.leave(self._handshake)
        self._places.enter(self)

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request."""
        super().data_received(data)
        if self.is_asked:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None
        elif self._head_timer is None:  # The next request of the connection begins.
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.leave)

    def on_response_complete(self) -> None:
        """Wait for the next request of the connection, which uvicorn does for a time."""
        self.silent_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """End the connection if the browser does not go on reading soon."""
        super().pause_writing()
        self._unread_timer = self.loop.call_later(UNREAD_SECONDS, self.leave)

    def resume_writing(self) -> None:
        """Go on: the browser has read."""
        if self._unread_timer is not None:
            self._unread_timer.cancel()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection that is gone."""
        self._places.leave(self)
        for timer in (self._head_timer, self._unread_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    # --- bounds

    @property
    def is_asked(self) -> bool:
        """Whether the head of a request is here, and its answer is not given yet."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn has None in it, too.
        return cycle is not None and not cycle.response_complete

    def leave(self) -> None:
        """End the connection at once."""
        self.transport.abort()
