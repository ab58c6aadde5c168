"""Exports metrics and spans to an OpenTelemetry collector; imports its packages only for metricsExporterType=OTLP_GRPC."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cometmq.broker.parts import Parts
from cometmq.broker.settings.metrics_keys import MetricsExporter
from cometmq.codec.metrics_text import Metric, Source
from cometmq.model.text import plural
from cometmq.steps.on_loop import Machines
from cometmq.steps.steps import Steps, called_back, elsewhere

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricsData

    from cometmq.broker.metrics.collector import Collector
    from cometmq.broker.metrics.stored_spans import StoredSpans

_log = logging.getLogger(__name__)

_SPANS_SECONDS = 1.0


class Exporting:
    """The export of a broker's metrics at intervals and, if enabled, of spans for stored messages with a trace.

    All points have the attributes `common`; `look` returns steps to run before the sources are read.
    """

    def __init__(
        self,
        parts: Parts,
        common: Mapping[str, str],
        sources: Mapping[str, Source],
        metrics: Mapping[str, Metric],
        look: Callable[[], Steps[None]],
    ) -> None:
        self._parts = parts
        self._common, self._sources, self._metrics = common, sources, metrics
        self._looks = look
        self._machines = Machines(parts.world, "otlp")
        self._collector: Collector | None = None
        self._spans_from = 0

    def start(self) -> None:
        """Start the export if metricsExporterType is OTLP_GRPC.

        Raises:
            SettingsError: OpenTelemetry is not installed, or a setting is invalid.
        """
        settings, clock = self._parts.settings, self._parts.clock
        if settings.metrics_exporter is not MetricsExporter.OTLP_GRPC:
            return
        from cometmq.broker.metrics.collector import Collector, resource_of
        from cometmq.broker.metrics.otlp_points import MetricPoints

        resource = resource_of(settings)
        self._collector = collector = Collector(settings, resource)
        points = MetricPoints(
            resource,
            self._common,
            self._sources,
            metrics=self._metrics,
            series_max=settings.metrics_series_max,
            begun_ms=clock.now_ms(),
        )
        seconds = settings.metrics_grpc_interval_ms / 1000

        def export() -> Steps[float]:
            yield from self._looks()
            points.begin(clock.now_ms())
            while (piece := (yield from points.next_piece())) is not None:
                if not (yield from called_back(_sent(collector, piece))):
                    break  # The next export sends everything again.
            return seconds

        self._machines.keep("metrics", export, first_seconds=seconds, rest_seconds=seconds)
        if settings.spans_exporter_enable:
            self._start_spans(collector)
        _log.info("metrics are sent to the collector %s", collector.target)

    def _start_spans(self, collector: "Collector") -> None:
        from cometmq.broker.metrics.stored_spans import StoredSpans

        store = self._parts.store
        spans = StoredSpans(
            store.read_log, collector.tracer(), self._parts.settings.broker_name
        )
        self._spans_from = store.dispatched_offset
        self._machines.keep("spans", lambda: self._look(spans), first_seconds=_SPANS_SECONDS)

    def _look(self, spans: "StoredSpans") -> Steps[float]:
        store, skipped = self._parts.store, 0
        end = store.dispatched_offset
        while self._spans_from < end:
            start = self._spans_from
            looked = yield from elsewhere(lambda start=start: spans.look(start, end))  # type: ignore[misc]
            self._spans_from = looked.offset
            skipped += looked.skipped
        # The log may have been truncated meanwhile.
        self._spans_from = min(self._spans_from, store.dispatched_offset)
        if skipped:
            _log.warning(
                "no span for %d %s with a trace: too many arrived at once",
                skipped,
                plural(skipped, "message"),
            )
        return _SPANS_SECONDS

    async def close(self) -> None:
        """Stop exporting metrics and spans."""
        await self._machines.close()
        if self._collector is not None:
            await asyncio.to_thread(self._collector.close)


def _sent(
    collector: "Collector", piece: "MetricsData"
) -> Callable[[Callable[[Any, BaseException | None], None]], None]:
    """Return an operation that sends some metrics and calls back on the event loop with whether they were accepted."""
    loop = asyncio.get_running_loop()

    def begin(done: Callable[[Any, BaseException | None], None]) -> None:
        collector.send(piece, lambda is_sent: loop.call_soon_threadsafe(done, is_sent, None))

    return begin
