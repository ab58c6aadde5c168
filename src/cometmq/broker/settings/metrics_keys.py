"""Settings of a broker for metrics and spans: RocketMQ's keys, and spansExporterEnable of CometMQ only."""

from enum import Enum

from cometmq.broker.settings.consume_keys import ConsumeKeys
from cometmq.model.frozen import dataclass
from cometmq.model.settings import setting


class MetricsExporter(Enum):
    """The way a broker exports metrics: DISABLE, PROM (a page), OTLP_GRPC (also a collector), LOG (page, warning)."""

    DISABLE = "DISABLE"
    PROM = "PROM"
    OTLP_GRPC = "OTLP_GRPC"
    LOG = "LOG"


@dataclass(frozen=True, slots=True)
class MetricsKeys(ConsumeKeys):
    """Settings of metrics and spans: keys of BrokerConfig of RocketMQ 5.3.3, and spansExporterEnable of CometMQ only.

    Attributes:
        metrics_exporter: PROM serves /metrics, /healthz and /readyz; differs: the default is DISABLE in RocketMQ.
            OTLP_GRPC serves the same and also sends metrics to a collector. LOG causes a warning.
        metrics_host: the address of /metrics and the health pages; differs: RocketMQ uses brokerIP1.
        metrics_port: the port of /metrics and the health pages; 0 for any free one, which is logged.
        metrics_series_max: most label sets per metric; the rest is summed in one line.
        metrics_grpc_target: the collector, http://HOST:PORT; without a scheme it is https, as in RocketMQ.
        metrics_grpc_header: headers of each request to the collector, `name:value,name:value`.
        metrics_grpc_timeout_ms: timeout of a request to the collector, ms.
        metrics_grpc_interval_ms: interval between exports, ms.
        spans_exporter_enable: create a span for each message with a `traceparent` and send it to the collector; CometMQ's own.
        metrics_labels: additional labels of every line, `name:value,name:value`.
    """

    metrics_exporter: MetricsExporter = setting(MetricsExporter.PROM, key="metricsExporterType")
    metrics_host: str = setting("127.0.0.1", key="metricsPromExporterHost", is_host=True)
    metrics_port: int = setting(5557, key="metricsPromExporterPort", least=0, most=65535)
    metrics_series_max: int = setting(50_000, key="metricsOtelCardinalityLimit", least=1)
    metrics_grpc_target: str = setting("", key="metricsGrpcExporterTarget")
    metrics_grpc_header: str = setting("", key="metricsGrpcExporterHeader", is_secret=True)
    metrics_grpc_timeout_ms: int = setting(
        3000, key="metricGrpcExporterTimeOutInMills", least=1, most=60_000
    )
    metrics_grpc_interval_ms: int = setting(
        60_000, key="metricGrpcExporterIntervalInMills", least=100
    )
    spans_exporter_enable: bool = setting(False)
    metrics_labels: str = setting("", key="metricsLabel")
