"""The text of /metrics, created piece by piece, because 10,000 topics give 32 MB; other work runs in between.

Prometheus's text format 0.0.4. A metric has a limited number of label sets (`metricsOtelCardinalityLimit`); the rest is
summed in one more, as in OpenTelemetry's SDK. For speed, the common start of all lines of a metric is one string, and the
rest is a format string with a gap for each value.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from cometmq.broker.metrics.metric_table import HISTOGRAM, METRICS, Metric
from cometmq.model.text import label_value
from cometmq.steps.steps import Steps, turn_end

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SCOPE = "broker-meter"
LINES_AT_ONCE = 2_000  # About 1 ms; then other work runs.
_OVERFLOW = "otel_metric_overflow"


class Buckets(NamedTuple):
    """The buckets of a histogram with some labels.

    Attributes:
        counts: Number of values up to each bound, and of all.
        total: Sum of all values.
    """

    counts: Sequence[int]
    total: float


# Label values and value. A source yields None between samples, so that other work may run.
Sample = tuple[tuple[str, ...], float | Buckets]
Source = Callable[[], Iterable[Sample | None]]


class MetricsPage:
    """The generator of the text of /metrics."""

    def __init__(
        self,
        common: Mapping[str, str],
        sources: Mapping[str, Source],
        *,
        metrics: Mapping[str, Metric] = METRICS,
        series_max: int,
        scope: str = SCOPE,
    ) -> None:
        """`common` has labels of all lines of `metrics`; `sources` are read for each page."""
        assert sources.keys() <= metrics.keys(), "a source of a metric that is described"
        self._metrics = metrics
        self._sources = sources
        self._series_max = series_max
        self._scope = scope
        self._common = _labels_text({"otel_scope_name": scope, **common})

    def text(self) -> Steps[list[bytes]]:
        """Return the text of /metrics as a list of encoded pieces, to be joined; other work can run between them."""
        pieces: list[bytes] = [
            f"# TYPE otel_scope_info gauge\notel_scope_info"
            f'{{otel_scope_name="{label_value(self._scope)}"}} 1\n# TYPE target_info gauge\ntarget_info 1\n'.encode()
        ]
        rows = 0
        for name, metric in self._metrics.items():
            source = self._sources.get(name)
            if source is None:
                continue
            lines = len(metric.bounds) + 3 if metric.kind == HISTOGRAM else 1
            for piece, count in self._of_metric(name, metric, source(), LINES_AT_ONCE // lines):
                pieces.append(piece)
                rows += count * lines
                if rows >= LINES_AT_ONCE:
                    rows = 0
                    yield from turn_end()
        return pieces

    def _of_metric(
        self, name: str, metric: Metric, source: Iterable[Sample | None], at_once: int
    ) -> Iterator[tuple[bytes, int]]:
        """Yield the text of at most `at_once` items of `source` at a time, with their number."""
        common = ",".join(
            [self._common, *(f'{label}="{text}"' for label, text in metric.fixed)]
        )
        lines = _histogram_lines if metric.kind == HISTOGRAM else _lines
        head = f"# HELP {name} {metric.says}\n# TYPE {name} {metric.kind}\n"
        left, samples = self._series_max, iter(source)
        more: list[float | Buckets] = []
        while some := list(islice(samples, at_once)):
            told = [each for each in some if each is not None]
            more += [value for _, value in told[left:]]
            told = told[:left]
            left -= len(told)
            yield (
                (head + lines(name, metric, common, told)).encode() if told else b"",
                len(some),
            )
            if told:
                head = ""
        if more:
            rest = metric._replace(labels=(_OVERFLOW,))
            yield lines(name, rest, common, [(("true",), sum_of(more))]).encode(), 1


def _labels_text(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{label_value(value)}"' for name, value in labels.items())


def _lines(name: str, metric: Metric, common: str, samples: Sequence[Sample]) -> str:
    begin, gaps = _begin_and_gaps(metric, common)
    begin, rest = f"{name}{{{begin}", f"{gaps}}} %s\n"
    texts = [rest % (*_safe(values), value) for values, value in samples]
    return begin + begin.join(texts)


def _histogram_lines(name: str, metric: Metric, common: str, samples: Sequence[Sample]) -> str:
    """Format the lines of each sample: one per bucket, sum and count."""
    begin, gaps = _begin_and_gaps(metric, common)
    bounds = [*(f"{bound}.0" for bound in metric.bounds), "+Inf"]
    # Numbers are filled in first, because they cannot contain the placeholder of the labels.
    rows = "".join(
        [
            *(f'{name}_bucket{{\r,le="{bound}"}} %s\n' for bound in bounds),
            f"{name}_sum{{\r}} %s\n{name}_count{{\r}} %s\n",
        ]
    )
    texts = []
    for values, value in samples:
        assert isinstance(value, Buckets), "buckets are of a histogram"
        numbers = (*value.counts, value.total, value.counts[-1])
        texts.append((rows % numbers).replace("\r", begin + gaps % _safe(values)))
    return "".join(texts)


def _begin_and_gaps(metric: Metric, common: str) -> tuple[str, str]:
    """Return the common start of the labels of all lines, and the rest with a gap for each value."""
    gaps = ",".join(f'{label}="%s"' for label in metric.labels)
    return (f"{common}," if gaps else common), gaps


def _safe(values: tuple[str, ...]) -> tuple[str, ...]:
    """Escape label values for use between quotes; hardly any value needs it."""
    together = "".join(values)
    if '"' in together or "\\" in together or "\n" in together:
        return tuple(map(label_value, values))
    return values


def sum_of(values: list[float | Buckets]) -> float | Buckets:
    """Return the sum of values of one metric, numbers or `Buckets`, which are too many for lines of their own."""
    buckets = [value for value in values if isinstance(value, Buckets)]
    if not buckets:
        return sum(value for value in values if not isinstance(value, Buckets))
    counts = [sum(column) for column in zip(*(each.counts for each in buckets), strict=True)]
    return Buckets(counts, sum(each.total for each in buckets))
