"""Sends metrics and spans to an OpenTelemetry collector in other threads by OpenTelemetry's exporters: OTLP over gRPC.

An extra: `pip install cometmq[otlp]`. Imported only if `metricsExporterType=OTLP_GRPC`.
"""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.model.errors import SettingsError

try:
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import Tracer
except ImportError as missing:
    raise SettingsError(
        f"metricsExporterType=OTLP_GRPC needs OpenTelemetry ({missing.name}); install it: pip install 'cometmq[otlp]'"
    ) from missing

_log = logging.getLogger(__name__)

SPANS_WAITING_MAX = 2_048
_SPANS_AT_ONCE = 512
_FLUSH_MS_MAX = 2_000


class Collector:
    """A connection to one collector; logs when it does not accept metrics, and when it accepts them again.

    Attributes:
        target: The collector's address, a URL.
    """

    def __init__(self, settings: BrokerSettings, resource: Resource) -> None:
        self.target = target_of(settings.metrics_grpc_target)
        self._resource = resource
        self._headers = headers_of(settings.metrics_grpc_header)
        self._seconds = settings.metrics_grpc_timeout_ms / 1000
        self._metrics = OTLPMetricExporter(
            endpoint=self.target, headers=self._headers, timeout=self._seconds
        )
        self._thread = ThreadPoolExecutor(1, "otlp")
        self._is_away = False
        self._tracers: TracerProvider | None = None
        # It logs each failure; we log once.
        logging.getLogger("opentelemetry.exporter.otlp.proto.grpc.exporter").setLevel(
            logging.CRITICAL
        )

    def tracer(self) -> Tracer:
        """Create a tracer; its spans wait in a queue of 2,048 to be sent, and some are dropped if that is full."""
        self._tracers = TracerProvider(resource=self._resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(
            endpoint=self.target, headers=self._headers, timeout=self._seconds
        )
        self._tracers.add_span_processor(
            BatchSpanProcessor(
                exporter,
                max_queue_size=SPANS_WAITING_MAX,
                max_export_batch_size=_SPANS_AT_ONCE,
                schedule_delay_millis=1_000,
            )
        )
        return self._tracers.get_tracer("cometmq.broker")

    def send(self, metrics: MetricsData, done: Callable[[bool], object]) -> None:
        """Send metrics in this collector's thread, and call `done` there with whether they were accepted.

        If `close` comes first, they are dropped, and `done` is not called.
        """

        def work() -> None:
            is_sent = False
            try:
                is_sent = self._metrics.export(metrics) is MetricExportResult.SUCCESS
                self._said("" if is_sent else "it does not answer, or refuses them")
            except Exception as error:  # noqa: BLE001  Errors of the library must not stop the exports.
                self._said(str(error) or type(error).__name__)
            finally:
                done(is_sent)

        self._thread.submit(work)

    def _said(self, problem: str) -> None:
        if problem and not self._is_away:
            _log.warning(
                "the collector %s does not accept metrics (%s); the broker keeps trying, and logs when it succeeds",
                self.target, problem,
            )  # fmt: skip
        elif not problem and self._is_away:
            _log.info("the collector %s accepts metrics again", self.target)
        self._is_away = bool(problem)

    def close(self) -> None:
        """Stop and drop unsent metrics; wait for a send in progress, usually some seconds at most. Call in a thread."""
        self._metrics.shutdown(timeout_millis=_FLUSH_MS_MAX)
        if self._tracers is not None:
            self._tracers.shutdown()
        self._thread.shutdown(wait=True, cancel_futures=True)


def resource_of(settings: BrokerSettings) -> Resource:
    """Return the OpenTelemetry resource that identifies a broker."""
    return Resource(
        {
            "service.name": "cometmq-broker",
            "service.namespace": settings.cluster_name,
            "service.instance.id": f"{settings.broker_name}:{settings.broker_id}",
        }
    )


def target_of(text: str) -> str:
    """Return a collector's URL, "https://" added unless the text starts with "http"; SettingsError if it is empty."""
    target = text.strip()
    if not target:
        raise SettingsError(
            "metricsExporterType=OTLP_GRPC needs a collector: set metricsGrpcExporterTarget, for example to http://127.0.0.1:4317"
        )
    return target if target.startswith("http") else f"https://{target}"


def headers_of(text: str) -> tuple[tuple[str, str], ...]:
    """Parse the headers of each request to a collector, "name:value,name:value", into pairs with lower-case names.

    Raises:
        SettingsError: A part is invalid; the message has no value, which may be a secret.
    """
    found = []
    for number, pair in enumerate(part for part in text.split(",") if part.strip()):
        name, colon, value = pair.partition(":")
        if not colon or not name.strip():
            raise SettingsError(
                f"metricsGrpcExporterHeader: part {number + 1} is not name:value"
            )
        # gRPC only accepts lower-case names.
        found.append((name.strip().lower(), value.strip()))
    return tuple(found)
