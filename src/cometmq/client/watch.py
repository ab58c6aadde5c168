"""Those who watch sends and listeners: traces and OpenTelemetry, each only where settings ask for it.

A send or a call of a listener that nobody watches runs no line of this.

Next: cometmq.client.tracing
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from cometmq.client.concurrent import Listener, Said, is_async_listener, is_consumed
from cometmq.client.results import SendResult
from cometmq.codec.trace import TraceOutcome
from cometmq.model.message import Message, StoredMessage

SendEnded = Callable[[asyncio.Future[SendResult]], None]
CallEnded = Callable[[TraceOutcome, BaseException | None], None]


class Watch(Protocol):
    """Somebody who watches."""

    def sending(self, message: Message) -> tuple[Message, SendEnded]:
        """A message is sent: the message that is sent in its place, and whom to tell the end."""
        ...

    def calling(self, messages: Sequence[StoredMessage]) -> CallEnded:
        """A listener is called, in whichever thread: whom to tell how it ended, in the same."""
        ...

    async def close(self) -> None:
        """Nothing more comes."""
        ...


def watched_listener(listener: Listener, watches: Sequence[Watch]) -> Listener:
    """The same listener, with those told who watch; itself when nobody does."""
    if not watches:
        return listener

    def begin(given: Any) -> CallEnded:
        messages = given if isinstance(given, list) else [given]
        ends = [watch.calling(messages) for watch in watches]

        def ended(outcome: TraceOutcome, error: BaseException | None) -> None:
            for end in reversed(ends):
                end(outcome, error)

        return ended

    async def call_async(given: Any) -> Any:
        ended = begin(given)
        try:
            said = await _awaited(listener, given)
        except BaseException as error:
            ended(TraceOutcome.EXCEPTION, error)
            raise
        ended(_outcome(said), None)
        return said

    def call(given: Any) -> Any:
        ended = begin(given)
        try:
            said = listener(given)
        except BaseException as error:
            ended(TraceOutcome.EXCEPTION, error)
            raise
        ended(_outcome(said), None)
        return said

    return call_async if is_async_listener(listener) else call


async def _awaited(listener: Listener, given: Any) -> Said:
    said = listener(given)
    assert isinstance(said, Awaitable), "it is one that must be awaited"
    return await said


def _outcome(said: object) -> TraceOutcome:
    return TraceOutcome.SUCCESS if is_consumed(said) else TraceOutcome.FAILED
