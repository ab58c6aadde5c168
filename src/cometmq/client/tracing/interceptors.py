"""Interceptors of sends and of calls of listeners: traces and OpenTelemetry, each only where settings ask for it.

A send or a call of a listener that nobody intercepts runs no line of this.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from cometmq.client.consumer.listeners import ListenerCall, is_consuming
from cometmq.client.results import SendResult
from cometmq.codec.trace import TraceOutcome
from cometmq.model.message import Message, StoredMessage

SendEnded = Callable[[asyncio.Future[SendResult]], None]
CallEnded = Callable[[TraceOutcome, BaseException | None], None]


class Interceptor(Protocol):
    """An observer that is told of sends and of calls of listeners."""

    def sending(self, message: Message) -> tuple[Message, SendEnded]:
        """Observe a send: gives the message to send in its place, and a function to call at its end."""
        ...

    def calling(self, messages: Sequence[StoredMessage]) -> CallEnded:
        """Observe a call of a listener: gives a function to call at its end, in the same thread."""
        ...

    async def close(self) -> None:
        """Release what the interceptor holds: nothing more comes."""
        ...


def intercepted_call(call: ListenerCall, interceptors: Sequence[Interceptor]) -> ListenerCall:
    """Wrap a listener's call with its interceptors; the call itself when there are none."""
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
    return TraceOutcome.SUCCESS if is_consuming(said) else TraceOutcome.FAILED
