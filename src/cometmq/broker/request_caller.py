"""The caller of a service: the connection that a request came from, and the way to answer it."""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from cometmq.codec.remoting import Command
from cometmq.net.answer import Answer
from cometmq.net.dispatcher import run_handler
from cometmq.net.peer import Peer

Result = TypeVar("Result", bound=tuple[Any, ...])


class RequestCaller(Generic[Result]):
    """A connection and a request on it (`loop.caller.Caller`)."""

    __slots__ = ("_command", "_encode", "owner")

    def __init__(
        self, command: Command, peer: Peer, encode: Callable[[Result], Answer]
    ) -> None:
        self._command = command
        self._encode = encode
        self.owner = peer

    @property
    def is_gone(self) -> bool:
        """Whether the connection is closed."""
        return self.owner.is_closed

    def hold(self) -> None:
        """Keep only the request's number, because the answer will take a while."""
        self._command = self._command.without_content()

    def answer(self, work: Callable[[], Result | Awaitable[Result | None] | None]) -> None:
        """Answer with the result of `work`."""
        run_handler(lambda _command, _peer: self.answer_of(work()), self._command, self.owner)

    def answer_of(
        self, outcome: Result | Awaitable[Result | None] | None
    ) -> Answer | Awaitable[Answer | None] | None:
        """Return the answer for an outcome: now, later, or None because the request waits."""
        if outcome is None:
            return None
        if isinstance(outcome, tuple):  # Results are tuples; awaitables are not.
            return self._encode(outcome)
        return self._answer_later(outcome)

    async def _answer_later(self, outcome: Awaitable[Result | None]) -> Answer | None:
        result = await outcome
        return None if result is None else self._encode(result)
