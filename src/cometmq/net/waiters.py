"""Waiters for answers on a channel: each is told once, of its answer or of what came in its place."""

import asyncio
from typing import Protocol

from cometmq.codec.remoting import Command, RawCommand
from cometmq.kernel.rows import Settled

# Command(*values) goes through a Python-level __new__ and takes three times as long.
_named = tuple.__new__


class Waiter(Protocol):
    """A waiter for one answer; it is told once, and what it does may not raise."""

    def answered(self, answer: RawCommand, /) -> None:
        """The answer is here."""
        ...

    def failed(self, error: BaseException, opaque: int, /) -> None:
        """Take the error in place of the answer to the request of this number."""
        ...


class PipelinedSendsWaiter(Waiter, Protocol):
    """A waiter for the answers to many plain sends, a `kernel.PipelinedSends`."""

    def settled(self, results: list[Settled], size: int, /) -> None:
        """Take results for those who wait for them; bytes of the bodies that were sent for these."""
        ...


class Call:
    """Waits with a future, which its caller may cancel."""

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[Command]) -> None:
        """The future gets the answer."""
        self._future = future

    def answered(self, answer: RawCommand, /) -> None:
        """See `Waiter`."""
        if not self._future.done():
            self._future.set_result(_named(Command, answer))

    def failed(self, error: BaseException, _opaque: int, /) -> None:
        """See `Waiter`."""
        if not self._future.done():
            self._future.set_exception(error)
