"""The page /metrics of a broker, created piece by piece, because 10,000 topics give 32 MB; other work runs in between."""

from collections.abc import Mapping

from cometmq.broker.metrics.metric_table import METRICS
from cometmq.codec.metrics_text import Metric, MetricText, Source, labels_text
from cometmq.steps.steps import Steps, turn_end

SCOPE = "broker-meter"
LINES_AT_ONCE = 2_000  # About 1 ms; then other work runs.


class MetricsPage:
    """The generator of the text of /metrics."""

    def __init__(
        self,
        common: Mapping[str, str],
        sources: Mapping[str, Source],
        *,
        metrics: Mapping[str, Metric] = METRICS,
        series_max: int,
    ) -> None:
        """`common` has the labels that the lines of all metrics have; `sources` are read for each page."""
        assert sources.keys() <= metrics.keys(), "a source of a metric that is described"
        self._metrics = metrics
        self._sources = sources
        self._text = MetricText({"otel_scope_name": SCOPE, **common}, series_max=series_max)

    def text(self) -> Steps[list[bytes]]:
        """Return the text of /metrics as a list of encoded pieces, to be joined; other work can run between them."""
        scope = labels_text({"otel_scope_name": SCOPE})
        pieces: list[bytes] = [
            f"# TYPE otel_scope_info gauge\notel_scope_info{{{scope}}} 1\n"
            "# TYPE target_info gauge\ntarget_info 1\n".encode()
        ]
        rows = 0
        for name, metric in self._metrics.items():
            source = self._sources.get(name)
            if source is None:
                continue
            at_once = LINES_AT_ONCE // metric.lines
            for piece, count in self._text.pieces(name, metric, source(), at_once):
                pieces.append(piece)
                rows += count * metric.lines
                if rows >= LINES_AT_ONCE:
                    rows = 0
                    yield from turn_end()
        return pieces
