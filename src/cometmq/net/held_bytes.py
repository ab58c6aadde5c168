"""Limit on the memory held for connections, for incomplete frames and for unread answers.

Each kind has one limit for the sum of all connections of a server. Above it, connections are closed until at most
three quarters are held: first those with the largest product of held bytes and seconds in which these did not fall.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from cometmq.model.clock import Clock

if TYPE_CHECKING:
    from cometmq.net.peer import Peer

_log = logging.getLogger(__name__)

# Close connections until this share of the limit is left, so that the next byte does not trigger it again.
_LEFT = 0.75
# Seconds added to each connection's age, so that the largest of the new ones is closed first.
_JUST_NOW = 0.01
# Minimum growth of an incomplete frame between two checks, in bytes.
PROGRESS_MIN = 4096
PROGRESS_SECONDS = 10.0
_SOON = 0.5  # Tolerance for early timers, in seconds.


class _Held:
    __slots__ = ("looked", "since", "size")

    def __init__(self, size: int, since: float) -> None:
        self.size = size
        self.since = since
        self.looked = -PROGRESS_MIN


class HeldBytes:
    """The memory of one kind, for incomplete frames or unread answers, that a server holds for its connections.

    Attributes:
        total: Sum in bytes, as last noted or measured.
        on_first: Called when a connection holds bytes and none did before.
        on_closed: Called before connections are closed because the sum exceeds the limit.
    """

    def __init__(
        self, what: str, bytes_max: int, measure: "Callable[[Peer], int]", clock: Clock
    ) -> None:
        """Limit the sum of the bytes of all connections to `bytes_max`.

        `what` names the bytes in log messages; `measure` returns the bytes that a connection holds now.
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
        """Record how many bytes a connection holds now; may close it or others to keep the limit."""
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
        elif size < held.size:  # Progress; for incomplete frames, another frame has begun.
            held.since, held.looked = self._clock.monotonic(), -PROGRESS_MIN
        self.total += size - held.size
        held.size = size
        if self.total > self._bytes_max:
            self._close_some()

    def __bool__(self) -> bool:
        """Whether bytes are held for any connection."""
        return bool(self._held)

    def close_late(self, seconds: float, is_late: "Callable[[Peer], bool]") -> None:
        """Close connections whose bytes did not fall for `seconds` and for which `is_late` is true.

        Leaves out those that the server does not read from at the moment (`Peer.is_read`).
        """
        latest = self._clock.monotonic() - seconds
        for peer, held in list(self._held.items()):
            if held.since <= latest and peer.is_read and is_late(peer):
                self._drop(peer, f"no frame header was complete after {seconds:.0f} s")

    def close_stuck(self) -> None:
        """Close connections that made hardly any progress (under 4 KiB) between checks 10 s apart.

        Leaves out those that the server does not read from at the moment (`Peer.is_read`).
        """
        now = self._clock.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + PROGRESS_SECONDS - _SOON
        for peer, held in list(self._held.items()):
            if not peer.is_read:
                held.looked = -PROGRESS_MIN
            elif held.size - held.looked < PROGRESS_MIN:
                self._drop(peer, f"hardly any progress in {PROGRESS_SECONDS:.0f} s")
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
            self._drop(peer, f"all connections together hold more than {self._bytes_max} bytes")
            if self.total <= self._bytes_max * _LEFT:
                return

    def _correct(self, peer: "Peer", size: int) -> None:
        """Update the bytes of a connection without closing any."""
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
