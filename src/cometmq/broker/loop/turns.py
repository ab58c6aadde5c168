"""Work that may take long, of which one turn of the loop does so much and no more.

To compile a long expression, or to look through messages by one, takes milliseconds. The first of a
turn is done at once. What comes when the turn's time is spent waits for the next ones, where the
connections that wait are served one after the other; so whoever asks for nothing of the kind waits
for one such piece at most, however many ask.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, NamedTuple, TypeVar

from cometmq.broker.loop.peer_bounds import PeerBounds
from cometmq.model.clock import Clock
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError

TURN_SECONDS = 0.005
# Of what waits; a request keeps its header's values, most of all its expression. Bytes.
PEER_COUNT_MAX = 4_096
PEER_SIZE_MAX = 8 << 20
SIZE_MAX = 32 << 20
_SIZE = 1_500  # Of one that waits, but for its expression.

T = TypeVar("T")
Work = Callable[[], T | Awaitable[T]]


class _Piece(NamedTuple):
    work: Work[Any]
    size: int
    done: "asyncio.Future[Any]"


class Turns:
    """The time of the loop that such work may take."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spent = 0.0
        self._is_running = False
        self._waiting: dict[Hashable, deque[_Piece]] = {}
        self._bounds = PeerBounds(
            peer_count_max=PEER_COUNT_MAX, peer_size_max=PEER_SIZE_MAX, size_max=SIZE_MAX
        )

    def run(self, peer: Hashable, work: Work[T], text_size: int) -> T | Awaitable[T]:
        """The result of `work`, now or in a later turn.

        Args:
            peer: whose work it is.
            work: what is to be done; it may give work itself, such as a read that waits for the device.
            text_size: bytes of the text that it keeps until then.

        Raises:
            RequestError: SYSTEM_BUSY, too much waits.
        """
        if not self._waiting and self._spent < TURN_SECONDS:
            if not self._is_running:
                self._next()
            return self._run(work)
        piece = _Piece(work, _SIZE + text_size, asyncio.get_running_loop().create_future())
        self._add(peer, piece)
        return _later(piece.done)

    def _add(self, peer: Hashable, piece: _Piece) -> None:
        if not self._bounds.take(peer, piece.size):
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                "[REJECTREQUEST]system busy: too many requests with long expressions wait; try again later",
            )
        self._waiting.setdefault(peer, deque()).append(piece)
        if not self._is_running:
            self._next()

    def _next(self) -> None:
        """The loop has a look at its sockets before this runs."""
        self._is_running = True
        asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._is_running = False
        # What took more than a turn's time is paid with turns in which nothing of the kind is done.
        is_paid = self._spent <= TURN_SECONDS
        self._spent = 0.0 if is_paid else self._spent - TURN_SECONDS
        while is_paid and self._waiting and self._spent < TURN_SECONDS:
            peer = next(iter(self._waiting))
            pieces = self._waiting.pop(peer)
            piece = pieces.popleft()
            self._bounds.give_back(peer, piece.size)
            if pieces:
                self._waiting[peer] = pieces  # Behind the others.
            if not piece.done.done():  # Else its connection is gone.
                self._finish(piece)
        if self._waiting or self._spent:
            self._next()

    def _finish(self, piece: _Piece) -> None:
        try:
            piece.done.set_result(self._run(piece.work))
        except Exception as error:  # noqa: BLE001  It is the answer's, see net.dispatcher.
            piece.done.set_exception(error)

    def _run(self, work: Work[T]) -> T | Awaitable[T]:
        began = self._clock.monotonic()
        try:
            return work()
        finally:
            self._spent += self._clock.monotonic() - began


async def _later(done: "asyncio.Future[Any]") -> Any:
    found = await done
    return await found if isinstance(found, Awaitable) else found
