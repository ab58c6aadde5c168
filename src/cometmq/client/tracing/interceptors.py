"""Interceptors of sends, ends of transactions and listener calls, for message traces and OpenTelemetry if settings enable them."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.listeners import ListenerCall, is_consuming
from cometmq.client.results import SendResult
from cometmq.client.settings import ClientSettings
from cometmq.codec.trace import TracedMessage, TraceOutcome
from cometmq.model.message import Message, StoredMessage

# Called with the result of a send, or with its error.
SendEnded = Callable[[SendResult | None, BaseException | None], None]
CallEnded = Callable[[TraceOutcome, BaseException | None], None]
Messages = Sequence[Message]
Start = Callable[[Messages], asyncio.Future[SendResult]]


class TransactionEnd(NamedTuple):
    """The end of a transaction, as a producer reports it to a broker.

    Attributes:
        topic: Topic for which the message of the transaction is meant.
        message_id: Unique id of that message.
        transaction_id: Transaction id in the broker's answer or check; without one, the message id.
        tag: Tag of the message; empty without one.
        keys: Keys of the message.
        address: The broker, "host:port".
        region: Region of the broker, or None.
        state: COMMIT, ROLLBACK or, in the answer to a check, UNKNOWN.
        is_from_check: Whether the producer answers a check of the broker.
    """

    topic: str
    message_id: str
    transaction_id: str
    tag: str
    keys: Sequence[str]
    address: str
    region: str | None
    state: str
    is_from_check: bool


class Interceptor(Protocol):
    """Interface of an observer of sends, ends of transactions and listener calls."""

    def sending(self, messages: Messages, kind: TracedMessage) -> tuple[Messages, SendEnded]:
        """Observe a send of a message or a batch; return the messages to send instead, and a function to call afterwards."""
        ...

    def ending(self, end: TransactionEnd) -> Callable[[BaseException | None], None]:
        """Observe a transaction's end; return a function to call after the report to the broker, with its error or None."""
        ...

    def calling(self, messages: Sequence[StoredMessage]) -> CallEnded:
        """Observe the start of a listener call; return a function to call at its end in the same thread, with the outcome."""
        ...

    async def close(self) -> None:
        """Release resources when the client closes; functions that the other methods returned may still be called."""
        ...


def make_interceptors(
    instance: ClientInstance, group: str, settings: ClientSettings
) -> list[Interceptor]:
    """Make the interceptors that the settings enable; raise SettingsError if OpenTelemetry is wanted but not installed."""
    interceptors: list[Interceptor] = []
    if settings.telemetry:
        from cometmq.client.tracing.telemetry import Telemetry

        interceptors.append(Telemetry(instance, group))
    if settings.trace:  # Made last because it starts a task, and Telemetry may raise.
        from cometmq.client.tracing.tracer import Tracer

        interceptors.insert(0, Tracer(instance, group, settings.trace_topic))
    return interceptors


def watched(
    interceptors: Sequence[Interceptor],
    messages: Messages,
    start: Start,
    kind: TracedMessage = TracedMessage.NORMAL,
) -> asyncio.Future[SendResult]:
    """Start a send through the interceptors, report its result or error to them, and return its future."""
    if not interceptors:
        return start(messages)
    ends: list[SendEnded] = []
    for interceptor in interceptors:
        messages, ended = interceptor.sending(messages, kind)
        ends.append(ended)
    try:
        result = start(messages)
    except BaseException as error:
        for ended in ends:
            ended(None, error)
        raise
    result.add_done_callback(partial(_report, ends))
    return result


def _report(ends: list[SendEnded], send: asyncio.Future[SendResult]) -> None:
    error = asyncio.CancelledError() if send.cancelled() else send.exception()
    for ended in ends:
        ended(None if error else send.result(), error)


def intercepted_call(call: ListenerCall, interceptors: Sequence[Interceptor]) -> ListenerCall:
    """Wrap a listener's call with interceptors; without interceptors return it unchanged."""
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
