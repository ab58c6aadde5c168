"""Limits long work per loop iteration.

Compiling a long expression, or filtering messages with one, takes milliseconds. Such work is done at once while the
iteration's time lasts. Then further work waits for later iterations, and connections take turns; so other requests
do not wait for all of it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

from cometmq.broker.loop.caller import Owner
from cometmq.model.clock import Clock
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import ConnectionLost, RequestError
from cometmq.steps.peer_bounds import PeerBounds
from cometmq.steps.steps import Done, Steps, Wait, called_back

TURN_SECONDS = 0.005
# Limits of waiting work. A request keeps the values of its header, above all its expression. Bytes.
PEER_COUNT_MAX = 4_096
PEER_SIZE_MAX = 8 << 20
SIZE_MAX = 32 << 20
_SIZE = 1_500  # Size of a waiting request without its expression.

T = TypeVar("T")


class _Piece(NamedTuple):
    """Long work that waits for a later loop iteration; `done` continues its steps."""

    size: int
    done: Done


class Turns:
    """The scheduler of long work, which gives it a part of the loop's time, in turns of about 5 ms.

    Attributes:
        refused: Number of pieces of work that were refused because too much was waiting.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.refused = 0
        self._spent = 0.0
        self._is_running = False
        self._waiting: dict[Owner, deque[_Piece]] = {}
        self._bounds = PeerBounds(
            peer_count_max=PEER_COUNT_MAX, peer_size_max=PEER_SIZE_MAX, size_max=SIZE_MAX
        )

    def run(self, peer: Owner, work: Callable[[], T | Steps[T]], text_size: int) -> Steps[T]:
        """Return the result of `work`, or raise its error; it is done now or in a later loop iteration.

        Args:
            peer: The connection that the work is for.
            work: The work; it may return further steps, such as a read that waits for the disk.
            text_size: Bytes of text that the work keeps while it waits.

        Raises:
            RequestError: SYSTEM_BUSY, because too much work is waiting.
            ConnectionLost: The connection was closed before the turn of work that had to wait.
        """
        if self._waiting or self._spent >= TURN_SECONDS:
            size = _SIZE + text_size
            if not self._bounds.take(peer, size):
                self.refused += 1
                raise RequestError(
                    ResponseCode.SYSTEM_BUSY,
                    "[REJECTREQUEST]system busy: too many requests with long expressions are waiting; try again later",
                )
            yield from called_back(lambda done: self._add(peer, _Piece(size, done)))
        began = self._clock.monotonic()
        try:
            found = work()
        finally:
            self._spend(began)
        return (yield from self._timed(found)) if isinstance(found, Generator) else found

    def _add(self, peer: Owner, piece: _Piece) -> None:
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
            gone = (
                ConnectionLost("the client disconnected before its request was processed")
                if peer.is_closed
                else None
            )
            piece.done(None, gone)  # The steps of `run` go on and do the work.
        if (self._waiting or self._spent) and not self._is_running:
            self._next()

    def _timed(self, steps: Steps[T]) -> Steps[T]:
        """Run steps, and count the time that they take between their waits."""
        go_on: Callable[[Any], Wait] = steps.send
        result: Any = None
        while True:
            began = self._clock.monotonic()
            try:
                wait = go_on(result)
            except StopIteration as end:
                value: T = end.value
                return value
            finally:
                self._spend(began)
            try:
                result, go_on = (yield wait), steps.send
            except Exception as error:  # noqa: BLE001  The steps handle it.
                result, go_on = error, steps.throw

    def _spend(self, began: float) -> None:
        self._spent += self._clock.monotonic() - began
        if not self._is_running:
            self._next()
