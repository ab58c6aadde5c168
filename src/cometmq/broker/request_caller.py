"""The caller of a service, for requests that come from a connection."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from cometmq.codec.fields import decode_fields
from cometmq.codec.remoting import Command
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Handler, Outcome
from cometmq.steps.steps import Steps

Header = TypeVar("Header")
Result = TypeVar("Result", bound=tuple[Any, ...])


class RequestCaller(Generic[Result]):
    """The client of a request: the connection that it came from, and how its answer is encoded (`loop.caller.Caller`)."""

    __slots__ = ("_command", "_encode", "owner")

    def __init__(
        self, command: Command, peer: Peer, encode: Callable[[Result], Answer]
    ) -> None:
        self._command = command
        self._encode = encode
        self.owner = peer

    @property
    def is_gone(self) -> bool:
        """Whether the client's connection is closed."""
        return self.owner.is_closed

    def hold(self) -> None:
        """Drop all of the request except its code, flags and number, because the answer may take a while."""
        self._command = self._command.without_content()

    def answer(self, work: Callable[[], Result | Steps[Result | None] | None]) -> None:
        """Answer the client with the result of `work` or an error; if the result is None, the request still waits."""
        peer = self.owner
        peer.dispatcher.run(lambda *_: self.answer_of(work()), self._command, peer)

    def answer_of(self, outcome: Result | Steps[Result | None] | None) -> Outcome:
        """Return a service result's answer, None if the request waits, or a generator that returns either later."""
        if outcome is None:
            return None
        if isinstance(outcome, tuple):  # Results are tuples; steps are not.
            return self._encode(outcome)
        return self._answer_later(outcome)

    def _answer_later(self, steps: Steps[Result | None]) -> Steps[Answer | None]:
        result = yield from steps
        return None if result is None else self._encode(result)


def by_caller(
    header: type[Header],
    work: Callable[[Header, RequestCaller[Result]], Result | Steps[Result | None] | None],
    encode: Callable[[Result], Answer],
) -> Handler:
    """Return a handler of requests that may be held: `work` gets the header and the caller, `encode` the result."""

    def handle(command: Command, peer: Peer) -> Outcome:
        request = decode_fields(header, command.fields)
        caller = RequestCaller(command, peer, encode)
        return caller.answer_of(work(request, caller))

    return handle
