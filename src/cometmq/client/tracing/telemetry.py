"""OpenTelemetry for sends and listeners: spans with context propagation through messages, and durations.

Requires `pip install cometmq[otel]`, and `telemetry` in the settings. Names follow the conventions for messaging spans
(system "rocketmq"). The context is propagated in user properties of the message, by default W3C's `traceparent`.
Durations are histograms with the names, labels and buckets of RocketMQ's own clients (rocketmq-clients,
HistogramEnum, GaugeEnum and MetricLabels): `rocketmq_send_cost_time` and `rocketmq_process_time`, ms; gauges have the
messages that push consumers cache. If the program configures no provider, OpenTelemetry drops all.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from cometmq.client.connection.instance import ClientInstance
from cometmq.client.results import SendResult
from cometmq.client.tracing.interceptors import CallEnded, Messages, SendEnded, TransactionEnd
from cometmq.codec.trace import TracedMessage, TraceOutcome
from cometmq.model.errors import SettingsError
from cometmq.model.message import StoredMessage

try:
    # mypy finds modules of a namespace package by their full names only.
    import opentelemetry.context as context  # noqa: PLR0402
    import opentelemetry.metrics as metrics  # noqa: PLR0402
    import opentelemetry.propagate as propagate  # noqa: PLR0402
    import opentelemetry.trace as trace  # noqa: PLR0402
except ImportError as missing:
    raise SettingsError(
        "telemetry needs OpenTelemetry; run pip install 'cometmq[otel]'"
    ) from missing


_MS_OF_SENDS = (1, 5, 10, 20, 50, 200, 500)
_MS_OF_CALLS = (1, 5, 10, 100, 1_000, 10_000, 60_000)


class Telemetry:
    """The OpenTelemetry spans and durations of one producer or consumer."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._tracer = trace.get_tracer("cometmq")
        meter = metrics.get_meter("cometmq")
        self._send_times = meter.create_histogram(
            "rocketmq_send_cost_time",
            unit="milliseconds",
            description="Time from a send to its acknowledgement.",
            explicit_bucket_boundaries_advisory=_MS_OF_SENDS,
        )
        self._call_times = meter.create_histogram(
            "rocketmq_process_time",
            unit="milliseconds",
            description="Duration of a listener call.",
            explicit_bucket_boundaries_advisory=_MS_OF_CALLS,
        )

    def sending(self, messages: Messages, _kind: TracedMessage) -> tuple[Messages, SendEnded]:
        """Start a span of a send unless it is empty; return copies of the messages with its context, and a function to end it."""
        if not messages:  # The sender refuses an empty batch.
            return messages, lambda _result, _error: None
        topic, size = messages[0].topic, sum(len(each.body) for each in messages)
        span = self._tracer.start_span(
            f"send {topic}",
            kind=trace.SpanKind.PRODUCER,
            attributes=self._attributes("send", topic, size),
        )
        if len(messages) > 1:
            span.set_attribute("messaging.batch.message_count", len(messages))
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span))
        began = self._instance.clock.monotonic()

        def ended(result: SendResult | None, error: BaseException | None) -> None:
            labels = self._labels(topic, result is not None)
            self._send_times.record(self._ms_since(began), labels)
            if error is not None:
                _fail(span, error)
            elif result is not None:
                span.set_attribute("messaging.message.id", result.message_id)
            span.end()

        traced = [replace(each, properties={**each.properties, **carrier}) for each in messages]
        return traced, ended

    def ending(self, end: TransactionEnd) -> Callable[[BaseException | None], None]:
        """Start a span of a transaction's end; return a function that ends the span, called with the error or None."""
        what = end.state.lower()
        span = self._tracer.start_span(
            f"{what} {end.topic}",
            kind=trace.SpanKind.CLIENT,
            attributes={
                **self._attributes(what, end.topic),
                "messaging.message.id": end.message_id,
            },
        )

        def ended(error: BaseException | None) -> None:
            if error is not None:
                _fail(span, error)
            span.end()

        return ended

    def calling(self, messages: Sequence[StoredMessage]) -> CallEnded:
        """Start a span of a listener call, in the first message's trace if any, and make it current; return a function to end it."""
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
        began = self._instance.clock.monotonic()

        def ended(outcome: TraceOutcome, error: BaseException | None) -> None:
            context.detach(token)
            labels = self._labels(first.topic, outcome is TraceOutcome.SUCCESS)
            group = {"consumer_group": self._group}
            self._call_times.record(self._ms_since(began), {**labels, **group})
            if error is not None:
                _fail(span, error)
            elif outcome is not TraceOutcome.SUCCESS:
                span.set_status(trace.Status(trace.StatusCode.ERROR, "consumed later"))
            span.end()

        return ended

    async def close(self) -> None:
        """Do nothing: the functions that the other methods return end the spans."""

    def _ms_since(self, began: float) -> float:
        return (self._instance.clock.monotonic() - began) * 1000

    def _labels(self, topic: str, is_well: bool) -> dict[str, str]:  # noqa: FBT001  Both are of one thing.
        return {
            "topic": topic,
            "client_id": self._instance.client_id,
            "invocation_status": "success" if is_well else "failure",
        }

    def _attributes(
        self, what: str, topic: str, body_size: int | None = None
    ) -> dict[str, str | int]:
        size = {} if body_size is None else {"messaging.message.body.size": body_size}
        return {
            **size,
            "messaging.system": "rocketmq",
            "messaging.operation.name": what,
            "messaging.destination.name": topic,
            "messaging.client.id": self._instance.client_id,
            "messaging.consumer.group.name" if what == "process" else
            "messaging.rocketmq.producer_group": self._group,
        }  # fmt: skip


def _fail(span: trace.Span, error: BaseException) -> None:
    span.record_exception(error)
    span.set_status(trace.Status(trace.StatusCode.ERROR, str(error)))


# Returns the number of messages and the bytes of their bodies, by topic.
Cached = Callable[[], Mapping[str, tuple[int, int]]]

_NAMES = {
    "rocketmq_consumer_cached_messages": "Messages that wait for a listener or are being consumed by one.",
    "rocketmq_consumer_cached_bytes": "Bytes of the bodies of cached messages.",
}


class CacheGauge:
    """The number and bytes of the cached messages of one push consumer, exported as gauges until `close`.

    The program's provider, if it has one, reads the values with `cached` when it exports, usually in its own thread.
    """

    def __init__(self, instance: ClientInstance, group: str, cached: Cached) -> None:
        self._labels = {"client_id": instance.client_id, "consumer_group": group}
        self._cached = cached
        _of_consumers.add(self)
        _make()

    def close(self) -> None:
        """Stop exporting the values of this consumer."""
        _of_consumers.discard(self)

    def observed(self, place: int) -> Iterable[metrics.Observation]:
        """Yield a value for each topic: the number of cached messages (place 0), or the bytes of their bodies (place 1)."""
        for topic, counts in self._cached().items():
            yield metrics.Observation(counts[place], {"topic": topic, **self._labels})


_of_consumers: set[CacheGauge] = set()


@cache
def _make() -> None:
    """Create the gauges, once: OpenTelemetry ignores a second instrument with the same name."""
    meter = metrics.get_meter("cometmq")
    for place, (name, description) in enumerate(_NAMES.items()):
        meter.create_observable_gauge(name, [_reader(place)], description=description)


def _reader(place: int) -> Callable[[metrics.CallbackOptions], list[metrics.Observation]]:
    def read(_options: metrics.CallbackOptions) -> list[metrics.Observation]:
        return [each for one in list(_of_consumers) for each in one.observed(place)]

    return read
