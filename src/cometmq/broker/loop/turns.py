"""Limits long work per loop iteration.

Compiling a long expression, or filtering messages with one, takes milliseconds. The first such work of an iteration is done at
once. When the iteration's time is used up, work waits for later ones, and connections take turns; so other requests
wait for at most one piece of such work, however many there are.
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
# Limits of waiting work. A request keeps the values of its header, above all its expression. Bytes.
PEER_COUNT_MAX = 4_096
PEER_SIZE_MAX = 8 << 20
SIZE_MAX = 32 << 20
_SIZE = 1_500  # Size of a waiting request without its expression.

T = TypeVar("T")
Work = Callable[[], T | Awaitable[T]]


class _Piece(NamedTuple):
    work: Work[Any]
    size: int
    done: "asyncio.Future[Any]"


class Turns:
    """The part of the loop's time for long work, in limited turns."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spent = 0.0
        self._is_running = False
        self._waiting: dict[Hashable, deque[_Piece]] = {}
        self._bounds = PeerBounds(
            peer_count_max=PEER_COUNT_MAX, peer_size_max=PEER_SIZE_MAX, size_max=SIZE_MAX
        )

    def run(self, peer: Hashable, work: Work[T], text_size: int) -> T | Awaitable[T]:
        """Return the result of `work`, now or in a later loop iteration.

        Args:
            peer: The connection that the work is for.
            work: The work; it may return an awaitable, such as a read that waits for the disk.
            text_size: Bytes of text that it keeps until then.

        Raises:
            RequestError: SYSTEM_BUSY, because too much work is waiting.
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
        """Schedule the next turn; the loop reads its sockets before that."""
        self._is_running = True
        asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._is_running = False
        # Work that exceeded a turn's time is compensated by turns without such work.
        is_paid = self._spent <= TURN_SECONDS
        self._spent = 0.0 if is_paid else self._spent - TURN_SECONDS
        while is_paid and self._waiting and self._spent < TURN_SECONDS:
            peer = next(iter(self._waiting))
            pieces = self._waiting.pop(peer)
            piece = pieces.popleft()
            self._bounds.give_back(peer, piece.size)
            if pieces:
                self._waiting[peer] = pieces  # After the others.
            if not piece.done.done():  # Otherwise its connection is closed.
                self._finish(piece)
        if self._waiting or self._spent:
            self._next()

    def _finish(self, piece: _Piece) -> None:
        try:
            piece.done.set_result(self._run(piece.work))
        except Exception as error:  # noqa: BLE001  It becomes the answer, see net.dispatcher.
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
