"""Connections of browsers, bounded: nobody shuts the dashboard by connections that say nothing.

uvicorn bounds how many there are, and answers 503 beyond; it waits for ever for the head of a request. Here a head has
10 s, and a newcomer beyond the bound takes the place of the connection that has been silent for longest.
"""

import asyncio
from collections.abc import Collection
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

CONNECTIONS_MAX = 200
OF_ADDRESS_MAX = 50
HEAD_SECONDS = 10.0
UNREAD_SECONDS = 30.0


class PageProtocol(H11Protocol):
    """One connection of a browser.

    Attributes:
        is_leaving: whether it is closed, or about to be.
        silent_since: when it came, or had its last answer; seconds of the loop.

    Args:
        proxies: addresses that connect for many browsers: the bound of an address is not theirs.
        made: what uvicorn gives its protocols.
    """

    def __init__(self, proxies: Collection[str], **made: Any) -> None:
        super().__init__(**made)
        self._proxies = proxies
        self.is_leaving = False
        self.silent_since = 0.0
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection: the head of a request must be here soon."""
        super().connection_made(transport)
        self.silent_since = self.loop.time()
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.leave)
        self._make_room()

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
        self.is_leaving = True
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
        self.is_leaving = True
        self.transport.abort()

    def _make_room(self) -> None:
        """Close the connection that has been silent for longest if there are too many, or this one if none is silent."""
        there = [
            each
            for each in self.connections
            if isinstance(each, PageProtocol) and not each.is_leaving
        ]
        address = self.client[0] if self.client else ""
        near = [each for each in there if each.client and each.client[0] == address]
        if len(near) > OF_ADDRESS_MAX and address not in self._proxies:
            there = near
        elif len(there) <= CONNECTIONS_MAX:
            return
        silent = [each for each in there if each is not self and not each.is_asked]
        min(silent, key=lambda each: each.silent_since, default=self).leave()
