"""Bytes that connections make this process hold: frames that are not whole, answers that are not read.

Each connection may hold some, and all together have a bound. Beyond it those go who hold most for longest: the
bytes times the seconds since they last got on decide, so that a client with a large frame or a slow line
outlives one that sends half a frame, or reads nothing, and waits.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from cometmq.model.clock import Clock

if TYPE_CHECKING:
    from cometmq.net.peer import Peer

_log = logging.getLogger(__name__)

# Closing goes on until this part of the bound is left, so that it is not due again at the next byte.
_LEFT = 0.75
# What somebody who has just begun is taken to have waited, seconds: among those the largest goes.
_JUST_NOW = 0.01
# A frame that has begun gets on by at least so much between two looks, bytes.
PROGRESS_MIN = 4096
PROGRESS_SECONDS = 10.0
_SOON = 0.5  # A timer may be early by less.


class _Held:
    """The bytes that one connection holds, since when it does not get on, and the bytes at the last look."""

    __slots__ = ("looked", "since", "size")

    def __init__(self, size: int, since: float) -> None:
        self.size = size
        self.since = since
        self.looked = -PROGRESS_MIN


class HeldBytes:
    """The bytes of one kind, of all connections of a server.

    Attributes:
        total: their sum as last told.
        on_first: told when one holds something and none did.
        on_closed: told when some were closed, as all together held too much.
    """

    def __init__(
        self, what: str, bytes_max: int, measure: "Callable[[Peer], int]", clock: Clock
    ) -> None:
        """Nobody holds anything.

        Args:
            what: the kind, for the log.
            bytes_max: the bound of all together.
            measure: how many a connection holds now.
            clock: time.
        """
        self.total = 0
        self.on_first: Callable[[], None] = lambda: None
        self.on_closed: Callable[[], None] = lambda: None
        self._what = what
        self._bytes_max = bytes_max
        self._measure = measure
        self._clock = clock
        self._held: dict[Peer, _Held] = {}
        self._next_look = clock.monotonic()

    def note(self, peer: "Peer", size: int) -> None:
        """A connection holds so many now; the peer or others may be closed for it."""
        held = self._held.get(peer)
        if held is None:
            if not size:
                return
            if not self._held:
                self.on_first()
            held = self._held[peer] = _Held(0, self._clock.monotonic())
        elif not size:
            self.total -= held.size
            del self._held[peer]
            return
        elif size < held.size:  # It got on; of half a frame: another has begun.
            held.since, held.looked = self._clock.monotonic(), -PROGRESS_MIN
        self.total += size - held.size
        held.size = size
        if self.total > self._bytes_max:
            self._close_some()

    def __bool__(self) -> bool:
        """Whether somebody holds something."""
        return bool(self._held)

    def close_late(self, seconds: float, is_late: "Callable[[Peer], bool]") -> None:
        """Close connections that have held something for so long, and are late with it."""
        latest = self._clock.monotonic() - seconds
        for peer, held in list(self._held.items()):
            if held.since <= latest and peer.is_read and is_late(peer):
                self._drop(peer, f"after {seconds:.0f} s no header of it is whole")

    def close_stuck(self) -> None:
        """Close connections whose bytes have not grown since the last look, 10 s ago."""
        now = self._clock.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + PROGRESS_SECONDS - _SOON
        for peer, held in list(self._held.items()):
            if not peer.is_read:
                held.looked = -PROGRESS_MIN
            elif held.size - held.looked < PROGRESS_MIN:
                self._drop(peer, "does not get on")
            else:
                held.looked = held.size

    def _close_some(self) -> None:
        for peer in list(self._held):
            self._correct(peer, self._measure(peer))
        if self.total <= self._bytes_max * _LEFT:
            return
        self.on_closed()
        now = self._clock.monotonic()

        def weight(peer: "Peer") -> float:
            held = self._held[peer]
            return held.size * (now - held.since + _JUST_NOW)

        for peer in sorted(self._held, key=weight, reverse=True):
            self._drop(peer, f"all together hold more than {self._bytes_max} bytes")
            if self.total <= self._bytes_max * _LEFT:
                return

    def _correct(self, peer: "Peer", size: int) -> None:
        """Put a number right without closing anybody."""
        held = self._held[peer]
        if not size:
            del self._held[peer]
        elif size < held.size:
            held.since = self._clock.monotonic()
        self.total += size - held.size
        held.size = size

    def _drop(self, peer: "Peer", why: str) -> None:
        held = self._held.pop(peer)
        self.total -= held.size
        _log.warning(
            "closing %s, which holds %d bytes of %s: %s",
            peer.address,
            held.size,
            self._what,
            why,
        )
        peer.abort()
