"""Prometheus' text format 0.0.4: metrics, their samples, and the text of a page, piece by piece.

A metric has a limited number of label sets; the rest is summed in one more, as in OpenTelemetry's SDK. For speed, the
common start of all lines of a metric is one string, and the rest is a format string with a placeholder for each value.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from cometmq.model.text import label_value

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"
_OVERFLOW = "otel_metric_overflow"


class Metric(NamedTuple):
    """The description of a metric.

    Attributes:
        kind: GAUGE, COUNTER or HISTOGRAM.
        labels: Names of the labels, in the order of their values.
        says: The text for `# HELP`.
        bounds: Bounds of a histogram's buckets, in its unit.
        fixed: Labels with a constant value.
    """

    kind: str
    labels: tuple[str, ...]
    says: str
    bounds: tuple[float, ...] = ()
    fixed: tuple[tuple[str, str], ...] = ()

    @property
    def lines(self) -> int:
        """Number of lines of a sample."""
        return len(self.bounds) + 3 if self.kind == HISTOGRAM else 1


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


class LabelRows:
    """The label values of samples that several metrics have in common; their text is made once for all of these.

    Attributes:
        rows: The label values of each sample.
    """

    def __init__(self, names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
        """Set the label values of each sample; `names` are the names of the labels, in the same order."""
        self.rows = rows
        self._form = f"{_gaps(names)}}} "
        self._texts: list[str] = []

    def texts(self, start: int, end: int) -> list[str]:
        """Return the labels of the samples from `start` to `end` as lines have them, with brace and space behind."""
        new = self.rows[len(self._texts) : end]
        self._texts += [self._form % values for values in _all_safe(new)]
        return self._texts[start:end]


class Column:
    """The samples of a metric whose label values other metrics share; iterating yields (label values, value).

    Attributes:
        labels: The label values.
        values: The metric's value for each.
    """

    def __init__(self, labels: LabelRows, values: Sequence[float]) -> None:
        self.labels = labels
        self.values = values

    def __iter__(self) -> Iterator[Sample]:
        return zip(self.labels.rows, self.values, strict=True)


Source = Callable[[], Iterable[Sample | None]]


class MetricText:
    """The encoder of a page's metrics: limits their label sets and adds the labels that all of them have.

    Args:
        common: Labels of all lines.
        series_max: Largest number of label sets of a metric.
    """

    def __init__(self, common: Mapping[str, str], *, series_max: int) -> None:
        self._common = labels_text(common)
        self._series_max = series_max

    def pieces(
        self, name: str, metric: Metric, source: Iterable[Sample | None], at_once: int
    ) -> Iterator[tuple[bytes, int]]:
        """Yield (text, number of items) for up to `at_once` items of `source` at a time; sum those over the limit."""
        common = ",".join(
            [self._common, *(f'{label}="{text}"' for label, text in metric.fixed)]
        )
        head = f"# HELP {name} {metric.says}\n# TYPE {name} {metric.kind}\n"
        if isinstance(source, Column):
            more: Sequence[float | Buckets] = source.values[self._series_max :]
            yield from self._column(f"{name}{{{common},", head, source, at_once)
        else:
            more = yield from self._samples(name, metric, common, head, source, at_once)
        if more:
            lines = _histogram_lines if metric.kind == HISTOGRAM else _lines
            rest = metric._replace(labels=(_OVERFLOW,))
            yield lines(name, rest, common, [(("true",), sum_of(more))]).encode(), 1

    def _column(
        self, begin: str, head: str, column: Column, at_once: int
    ) -> Iterator[tuple[bytes, int]]:
        count = min(len(column.values), self._series_max)
        for start in range(0, count, at_once):
            end = min(start + at_once, count)
            labels = column.labels.texts(start, end)
            lines = [
                f"{label}{value}\n"
                for label, value in zip(labels, column.values[start:end], strict=True)
            ]
            yield (head + begin + begin.join(lines)).encode(), len(lines)
            head = ""

    def _samples(
        self,
        name: str,
        metric: Metric,
        common: str,
        head: str,
        source: Iterable[Sample | None],
        at_once: int,
    ) -> Generator[tuple[bytes, int], None, list[float | Buckets]]:
        """Yield like `pieces`, but no sum, and return the values of the samples beyond the limit."""
        lines = _histogram_lines if metric.kind == HISTOGRAM else _lines
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
        return more

    def whole(self, metrics: Mapping[str, Metric], sources: Mapping[str, Source]) -> bytes:
        """Return the text of the metrics that have a source, in one go; for pages that are never long."""
        return b"".join(
            piece
            for name, metric in metrics.items()
            if name in sources
            for piece, _ in self.pieces(name, metric, sources[name](), self._series_max)
        )


def labels_text(labels: Mapping[str, str]) -> str:
    """Return labels as they stand between braces, without the braces."""
    return ",".join(f'{name}="{label_value(value)}"' for name, value in labels.items())


def _lines(name: str, metric: Metric, common: str, samples: Sequence[Sample]) -> str:
    begin, gaps = _begin_and_gaps(metric, common)
    begin, rest = f"{name}{{{begin}", f"{gaps}}} %s\n"
    rows = _all_safe([values for values, _ in samples])
    texts = [rest % (*values, value) for values, (_, value) in zip(rows, samples, strict=True)]
    return begin + begin.join(texts)


def _histogram_lines(name: str, metric: Metric, common: str, samples: Sequence[Sample]) -> str:
    """Format the lines of each sample: one per bucket, sum and count."""
    begin, gaps = _begin_and_gaps(metric, common)
    bounds = [*(str(float(bound)) for bound in metric.bounds), "+Inf"]
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
    """Return the labels that all lines share, and the others as a format string with a placeholder for each value."""
    gaps = _gaps(metric.labels)
    return (f"{common}," if gaps else common), gaps


def _gaps(names: Sequence[str]) -> str:
    return ",".join(f'{name}="%s"' for name in names)


def _all_safe(rows: Sequence[tuple[str, ...]]) -> Sequence[tuple[str, ...]]:
    """Escape the label values of all rows; tests all of them at once first, because hardly any value needs it."""
    is_needed = _needs_escapes("".join([text for values in rows for text in values]))
    return [_safe(values) for values in rows] if is_needed else rows


def _safe(values: tuple[str, ...]) -> tuple[str, ...]:
    """Escape label values for use between quotes; hardly any value needs it."""
    return tuple(map(label_value, values)) if _needs_escapes("".join(values)) else values


def _needs_escapes(text: str) -> bool:
    return '"' in text or "\\" in text or "\n" in text


def sum_of(values: Sequence[float | Buckets]) -> float | Buckets:
    """Return the sum of values of one metric, numbers or `Buckets`, which are too many for lines of their own."""
    buckets = [value for value in values if isinstance(value, Buckets)]
    if not buckets:
        return sum(value for value in values if not isinstance(value, Buckets))
    counts = [sum(column) for column in zip(*(each.counts for each in buckets), strict=True)]
    return Buckets(counts, sum(each.total for each in buckets))
