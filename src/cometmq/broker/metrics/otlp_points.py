"""A broker's metrics as OpenTelemetry points for OTLP, a thousand at a time, built from the SDK's own classes.

Names and units are those of RocketMQ's instruments: `rocketmq_rpc_latency_milliseconds` of Prometheus is the instrument
`rocketmq_rpc_latency` with the unit "milliseconds". Imported only with OTLP_GRPC.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from cometmq.broker.metrics.metric_table import METRICS
from cometmq.broker.metrics.page import SCOPE
from cometmq.codec import metrics_text
from cometmq.codec.metrics_text import COUNTER, HISTOGRAM, Buckets, Source, sum_of
from cometmq.steps.steps import Steps, turn_end

# A request with this many points has some 300 KB; collectors accept 4 MB by default.
POINTS_AT_ONCE = 1_000
_POINTS_A_TURN = 200  # About 1 ms; then other work runs.
_UNITS = ("milliseconds", "seconds", "bytes")
# Their instruments already have the unit in their names.
_KEPT = ("rocketmq_storage_flush_behind_bytes", "rocketmq_storage_dispatch_behind_bytes")
_OVERFLOW = "otel.metric.overflow"
_WORDS: Mapping[str, str | bool] = {"true": True, "false": False}
# OTLP allows omitting minimum and maximum, which are unknown; the SDK's class has no value for that.
_UNKNOWN = cast("float", None)

Attributes = Mapping[str, str | bool]
Point = NumberDataPoint | HistogramDataPoint


def instrument_of(name: str) -> tuple[str, str]:
    """Return the instrument and the unit ("" if none) of a metric with this Prometheus name.

    RocketMQ's instruments have no unit in their names, except for `_KEPT`; CometMQ's own have it.
    """
    for unit in _UNITS:
        if name.endswith(f"_{unit}"):
            is_kept = name in _KEPT or not name.startswith("rocketmq_")
            return (name if is_kept else name.removesuffix(f"_{unit}")), unit
    return name, ""


class MetricPoints:
    """An encoder of all metrics as points, piece by piece.

    Args:
        resource: Identifies the broker.
        common: Attributes of all points.
        sources: The source of each metric.
        metrics: The metrics, by name.
        series_max: Largest number of points per metric; the rest is summed in one more, the overflow point.
        begun_ms: When counting began, epoch ms.
    """

    def __init__(
        self,
        resource: Resource,
        common: Mapping[str, str],
        sources: Mapping[str, Source],
        *,
        metrics: Mapping[str, metrics_text.Metric] = METRICS,
        series_max: int,
        begun_ms: int,
    ) -> None:
        assert sources.keys() <= metrics.keys(), "a source of a metric that is described"
        self._metrics = metrics
        self._resource = resource
        self._common = common
        self._sources = sources
        self._series_max = series_max
        self._begun_ns = begun_ms * 1_000_000
        self._left: Iterator[tuple[str, Point] | None] = iter(())

    def begin(self, now_ms: int) -> None:
        """Start an export with the time `now_ms`; `next_piece` reads the values and returns them."""
        self._left = self._points(now_ms * 1_000_000)

    def next_piece(self) -> Steps[MetricsData | None]:
        """Return the next points, at most a thousand; None if there are no more."""
        found: dict[str, list[Point]] = {}
        count = 0
        for looked, each in enumerate(self._left, 1):
            if each is not None:
                found.setdefault(each[0], []).append(each[1])
                count += 1
                if count == POINTS_AT_ONCE:
                    break
            if looked % _POINTS_A_TURN == 0:
                yield from turn_end()
        return self._one_piece(found) if found else None

    def _points(self, now_ns: int) -> Iterator[tuple[str, Point] | None]:
        for name, metric in self._metrics.items():
            source = self._sources.get(name)
            if source is None:
                continue
            fixed = {**self._common, **dict(metric.fixed)}
            left, more = self._series_max, []
            for sample in source():
                if sample is None:
                    yield None  # Other work may run.
                    continue
                values, value = sample
                if left == 0:
                    more.append(value)
                    continue
                left -= 1
                labels: Attributes = {
                    label: _WORDS.get(text, text) if label.startswith("is_") else text
                    for label, text in zip(metric.labels, values, strict=True)
                }
                yield name, self._point({**fixed, **labels}, now_ns, value, metric.bounds)
            if more:
                rest: Attributes = {**fixed, _OVERFLOW: True}
                yield name, self._point(rest, now_ns, sum_of(more), metric.bounds)

    def _point(
        self, labels: Attributes, now_ns: int, value: float | Buckets, bounds: Sequence[float]
    ) -> Point:
        if not isinstance(value, Buckets):
            return NumberDataPoint(labels, self._begun_ns, now_ns, value)
        below = [0, *value.counts]
        counts = [count - before for before, count in zip(below, value.counts, strict=False)]
        return HistogramDataPoint(
            labels,
            self._begun_ns,
            now_ns,
            value.counts[-1],
            value.total,
            counts,
            [float(bound) for bound in bounds],
            min=_UNKNOWN,
            max=_UNKNOWN,
        )

    def _one_piece(self, found: Mapping[str, Sequence[Point]]) -> MetricsData:
        metrics = [self._metric(name, points) for name, points in found.items()]
        scope = ScopeMetrics(InstrumentationScope(SCOPE), metrics, "")
        return MetricsData([ResourceMetrics(self._resource, [scope], "")])

    def _metric(self, name: str, points: Sequence[Point]) -> Metric:
        metric, (instrument, unit) = self._metrics[name], instrument_of(name)
        total = AggregationTemporality.CUMULATIVE
        numbers = [each for each in points if isinstance(each, NumberDataPoint)]
        if metric.kind == HISTOGRAM:
            sizes = [each for each in points if isinstance(each, HistogramDataPoint)]
            return Metric(instrument, metric.says, unit, Histogram(sizes, total))
        if metric.kind == COUNTER:
            return Metric(instrument, metric.says, unit, Sum(numbers, total, is_monotonic=True))
        return Metric(instrument, metric.says, unit, Gauge(numbers))
