"""Spans of OpenTelemetry for sends and listeners, and their context along with the messages.

An extra: `pip install cometmq[otel]`, and `is_telemetry_enabled` in the settings. Names follow the
conventions for messaging spans (system "rocketmq"). The context travels as user properties of the message
(`traceparent`), where clients of other languages look for it, too.

Next: cometmq.client.watch
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from cometmq.client.hub import Hub
from cometmq.client.results import SendResult
from cometmq.client.watch import CallEnded, SendEnded
from cometmq.codec.trace import TraceOutcome
from cometmq.model.errors import SettingsError
from cometmq.model.message import Message, StoredMessage

try:
    # mypy finds modules of a namespace package by their full names only.
    import opentelemetry.context as context  # noqa: PLR0402
    import opentelemetry.propagate as propagate  # noqa: PLR0402
    import opentelemetry.trace as trace  # noqa: PLR0402
except ImportError as missing:
    raise SettingsError(
        "is_telemetry_enabled needs OpenTelemetry; install it: pip install cometmq[otel]"
    ) from missing


class Telemetry:
    """The spans of one producer or consumer; a `Watch`.

    Args:
        hub: of the client.
        group: of the producer or consumer.
    """

    def __init__(self, hub: Hub, group: str) -> None:
        self._hub = hub
        self._group = group
        self._tracer = trace.get_tracer("cometmq")

    def sending(self, message: Message) -> tuple[Message, SendEnded]:
        """A span from the send to its acknowledgement; the message carries its context."""
        span = self._tracer.start_span(
            f"send {message.topic}",
            kind=trace.SpanKind.PRODUCER,
            attributes=self._attributes("send", message.topic, len(message.body)),
        )
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span))

        def ended(send: asyncio.Future[SendResult]) -> None:
            error = None if send.cancelled() else send.exception()
            if error is not None:
                _fail(span, error)
            elif not send.cancelled():
                span.set_attribute("messaging.message.id", send.result().message_id)
            span.end()

        return replace(message, properties={**message.properties, **carrier}), ended

    def calling(self, messages: Sequence[StoredMessage]) -> CallEnded:
        """A span while the listener runs, current within it, below the sender's of its first message."""
        first = messages[0]
        parents = [propagate.extract(dict(each.properties)) for each in messages]
        span = self._tracer.start_span(
            f"process {first.topic}",
            context=parents[0],
            kind=trace.SpanKind.CONSUMER,
            links=[
                trace.Link(trace.get_current_span(parent).get_span_context())
                for parent in parents[1:]
            ],
            attributes={
                **self._attributes("process", first.topic, len(first.body)),
                "messaging.message.id": first.message_id,
                "messaging.batch.message_count": len(messages),
            },
        )
        token = context.attach(trace.set_span_in_context(span, parents[0]))

        def ended(outcome: TraceOutcome, error: BaseException | None) -> None:
            context.detach(token)
            if error is not None:
                _fail(span, error)
            elif outcome is not TraceOutcome.SUCCESS:
                span.set_status(trace.Status(trace.StatusCode.ERROR, "consumed later"))
            span.end()

        return ended

    async def close(self) -> None:
        """Nothing: spans are ended one by one."""

    def _attributes(self, what: str, topic: str, body_size: int) -> dict[str, str | int]:
        return {
            "messaging.system": "rocketmq",
            "messaging.operation.name": what,
            "messaging.destination.name": topic,
            "messaging.message.body.size": body_size,
            "messaging.client.id": self._hub.client_id,
            "messaging.consumer.group.name" if what == "process" else
            "messaging.rocketmq.producer_group": self._group,
        }  # fmt: skip


def _fail(span: trace.Span, error: BaseException) -> None:
    span.record_exception(error)
    span.set_status(trace.Status(trace.StatusCode.ERROR, str(error)))
