"""Interceptors of sends and of calls of listeners: traces and OpenTelemetry, each only where settings ask for it.

A send or a call of a listener that nobody intercepts runs no line of this.

Next: cometmq.client.tracing.tracer
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from cometmq.client.consumer.listeners import ListenerCall, is_consumed
from cometmq.client.results import SendResult
from cometmq.codec.trace import TraceOutcome
from cometmq.model.message import Message, StoredMessage

SendEnded = Callable[[asyncio.Future[SendResult]], None]
CallEnded = Callable[[TraceOutcome, BaseException | None], None]


class Interceptor(Protocol):
    """Somebody who is told of sends and calls."""

    def sending(self, message: Message) -> tuple[Message, SendEnded]:
        """A message is sent: the message that is sent in its place, and whom to tell the end."""
        ...

    def calling(self, messages: Sequence[StoredMessage]) -> CallEnded:
        """A listener is called, in whichever thread: whom to tell how it ended, in the same."""
        ...

    async def close(self) -> None:
        """Nothing more comes."""
        ...


def intercepted_call(call: ListenerCall, interceptors: Sequence[Interceptor]) -> ListenerCall:
    """A listener's call with its interceptors told; itself when there are none."""
    if not interceptors:
        return call
    function = call.function

    def begin(messages: list[StoredMessage]) -> CallEnded:
        ends = [each.calling(messages) for each in interceptors]

        def ended(outcome: TraceOutcome, error: BaseException | None) -> None:
            for end in reversed(ends):
                end(outcome, error)

        return ended

    async def call_async(messages: list[StoredMessage]) -> Any:
        ended = begin(messages)
        try:
            said = await function(messages)
        except BaseException as error:
            ended(TraceOutcome.EXCEPTION, error)
            raise
        ended(_outcome(said), None)
        return said

    def call_once(messages: list[StoredMessage]) -> Any:
        ended = begin(messages)
        try:
            said = function(messages)
        except BaseException as error:
            ended(TraceOutcome.EXCEPTION, error)
            raise
        ended(_outcome(said), None)
        return said

    return call._replace(function=call_async if call.is_async else call_once)


def _outcome(said: object) -> TraceOutcome:
    return TraceOutcome.SUCCESS if is_consumed(said) else TraceOutcome.FAILED
