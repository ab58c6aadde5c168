"""Waiters for answers on a channel: notified of each answer, or of an error instead."""

import asyncio
from typing import Protocol

from cometmq.codec.remoting import Command, RawCommand
from cometmq.kernel.rows import Settled

# Command(*values) goes through a Python-level __new__ and takes three times as long.
_named = tuple.__new__


class Waiter(Protocol):
    """A waiter for the answers to its requests, notified once for each; its methods must not raise."""

    def answered(self, answer: RawCommand, /) -> None:
        """Process the answer to one of the requests, whatever its code; its opaque says to which."""
        ...

    def failed(self, error: BaseException, opaque: int, /) -> None:
        """Process the error that occurred instead of the answer to the request with this opaque."""
        ...


class PipelinedSendsWaiter(Waiter, Protocol):
    """A waiter for the answers to many simple sends, a `kernel.PipelinedSends`."""

    def settled(self, results: list[Settled], size: int, /) -> None:
        """Process the results of some sends, whose bodies have `size` bytes in total."""
        ...


class Call:
    """A waiter that sets a future, which the caller may cancel."""

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[Command]) -> None:
        self._future = future

    def answered(self, answer: RawCommand, /) -> None:
        """Set the future's result, unless the future was cancelled."""
        if not self._future.done():
            self._future.set_result(_named(Command, answer))

    def failed(self, error: BaseException, _opaque: int, /) -> None:
        """Set the future's exception, unless the future was cancelled."""
        if not self._future.done():
            self._future.set_exception(error)
