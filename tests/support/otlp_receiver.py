"""A collector of OpenTelemetry for tests: a real gRPC server that decodes OTLP's own protobuf, and keeps what came."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import (
    metrics_service_pb2,
    metrics_service_pb2_grpc,
)
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


class OtlpReceiver:
    """Takes metrics and spans on a free port of 127.0.0.1, or on the one that is given."""

    def __init__(self, port: int = 0) -> None:
        self._lock = threading.Lock()
        self._points: dict[str, list[Any]] = {}
        self._metrics: dict[str, Any] = {}
        self._spans: list[Any] = []
        self.resources: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self._server = grpc.server(ThreadPoolExecutor(2))
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(
            _Metrics(self), self._server
        )
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(_Traces(self), self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")

    @property
    def target(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> "OtlpReceiver":
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(grace=None).wait()

    def metric(self, name: str) -> Any:
        """The last that came of a metric, as its protobuf message; None: nothing yet."""
        with self._lock:
            return self._metrics.get(name)

    def value(self, name: str, **labels: object) -> float | None:
        """The newest number of a metric under these attributes; None: none came."""
        with self._lock:
            for point in reversed(self._points.get(name, [])):
                if labels.items() <= attributes(point).items():
                    return point.as_double or point.as_int
        return None

    def points(self, name: str) -> list[Any]:
        with self._lock:
            return list(self._points.get(name, []))

    def spans(self) -> list[Any]:
        with self._lock:
            return list(self._spans)

    def take_metrics(self, request: Any, context: Any) -> None:
        with self._lock:
            self.headers.append(
                {each.key: each.value for each in context.invocation_metadata()}
            )
            for resource in request.resource_metrics:
                self.resources.append(attributes(resource.resource))
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        self._metrics[metric.name] = metric
                        kind = metric.WhichOneof("data")
                        points = getattr(metric, kind).data_points
                        self._points.setdefault(metric.name, []).extend(points)

    def take_spans(self, request: Any) -> None:
        with self._lock:
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    self._spans.extend(scope.spans)


class _Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    def __init__(self, receiver: OtlpReceiver) -> None:
        self._receiver = receiver

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802  OTLP's name.
        self._receiver.take_metrics(request, context)
        return metrics_service_pb2.ExportMetricsServiceResponse()


class _Traces(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self, receiver: OtlpReceiver) -> None:
        self._receiver = receiver

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802  OTLP's name.
        self._receiver.take_spans(request)
        return trace_service_pb2.ExportTraceServiceResponse()


def attributes(holder: Any) -> dict[str, Any]:
    """The attributes of a point, a span or a resource, with their types."""
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value"))
        for each in holder.attributes
    }
