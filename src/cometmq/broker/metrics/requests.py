"""The monitoring feature: the metrics page, the health pages, their port, and the export to a collector."""

import asyncio
import logging
import re
from collections.abc import Iterator
from http import HTTPStatus

from cometmq.broker.metrics.broker_samples import BrokerSamples
from cometmq.broker.metrics.exporting import Exporting
from cometmq.broker.metrics.lag import Lags
from cometmq.broker.metrics.metric_table import METRICS, metrics_of
from cometmq.broker.metrics.page import MetricsPage
from cometmq.broker.metrics.state_samples import StateSamples
from cometmq.broker.parts import Feature, Parts
from cometmq.broker.settings.metrics_keys import MetricsExporter
from cometmq.broker.statistics.requests import earliest_time
from cometmq.broker.tables.replication_state import MasterState
from cometmq.codec.metrics_text import CONTENT_TYPE, Sample, Source
from cometmq.model.errors import NetError
from cometmq.net.http import HttpAnswer, HttpServer, words
from cometmq.steps.on_loop import Machines
from cometmq.steps.steps import Steps

_log = logging.getLogger(__name__)

# How long a page is reused for further requests.
AGE_SECONDS = 1.0
_NO_LABEL = re.compile(r"[^a-zA-Z0-9_]")
_TAKEN = {
    "le", "otel_scope_name", "cluster", "node_id", "node_type", "broker_id", "role",
}.union(
    *(metric.labels for metric in METRICS.values()),
    *({label for label, _ in metric.fixed} for metric in METRICS.values()),
)  # fmt: skip


class MonitoringHandler(Feature):
    """Serves `/metrics`, `/healthz` and `/readyz` unless metrics are disabled, and exports metrics with OTLP_GRPC."""

    def __init__(self, parts: Parts) -> None:
        settings = parts.settings
        self._settings, self._clock, self._store = settings, parts.clock, parts.store
        self._earliest_ms = -1
        self._lags = Lags(parts)
        self._state = StateSamples(parts)
        self.health = Health(parts)
        common = {
            "cluster": settings.cluster_name,
            "node_id": settings.broker_name,
            "node_type": "broker",
            **extra_labels(settings.metrics_labels),
        }
        sources: dict[str, Source] = {
            **BrokerSamples(parts).table(),
            **self._state.table(),
            **self._lags.table(),
            "rocketmq_storage_message_reserve_time_milliseconds": self._reserve_time,
        }
        metrics = metrics_of(settings.broker_id, is_slave=settings.is_slave)
        self._page = MetricsPage(
            common, sources, metrics=metrics, series_max=settings.metrics_series_max
        )
        self._exporting = Exporting(parts, common, sources, metrics, self._look)
        self._machines = Machines(parts.world, "metrics")
        self._making: asyncio.Future[list[bytes]] | None = None
        self._made_at = 0.0
        self._http = HttpServer(
            {
                "/metrics": self._metrics,
                "/healthz": self._alive,
                "/readyz": self._ready,
            },
            parts.clock,
        )

    @property
    def port(self) -> int:
        """The port on which the pages are served; 0 if they are not."""
        return self._http.port

    async def start(self) -> None:
        """Start to listen and, if that is set, to export, unless metrics are disabled; if listening fails, log that only.

        Raises:
            SettingsError: Metrics are to be exported, but OpenTelemetry is not installed or a setting is invalid.
        """
        settings = self._settings
        if settings.metrics_exporter is MetricsExporter.DISABLE:
            return
        self._exporting.start()
        host = settings.metrics_host
        try:
            await self._http.start(host, settings.metrics_port)
        except NetError as error:
            _log.warning(
                "metrics are not served: %s; set another port (metricsPromExporterPort), or switch "
                "metrics off (metricsExporterType=DISABLE)",
                error,
            )
            return
        _log.info("metrics at http://%s:%d/metrics", host, self.port)

    async def close(self) -> None:
        """Stop serving the pages and exporting metrics."""
        await self._http.close()
        await self._exporting.close()
        await self._machines.close()

    async def _alive(self) -> HttpAnswer:
        return words(self.health.alive())

    async def _ready(self) -> HttpAnswer:
        faults = self.health.faults()
        if faults:
            return words("not ready: " + "; ".join(faults), HTTPStatus.SERVICE_UNAVAILABLE)
        return words(self.health.ready())

    async def _metrics(self) -> HttpAnswer:
        """Return the metrics page; requests while it is created, or within a second of that start, share the result."""
        now = self._clock.monotonic()
        if self._making is None or (self._making.done() and now - self._made_at >= AGE_SECONDS):
            self._made_at = now
            self._making = asyncio.ensure_future(self._machines.run(self._make()))
        pieces = await asyncio.shield(self._making)
        return HttpAnswer(pieces, content_type=CONTENT_TYPE)

    def _reserve_time(self) -> Iterator[Sample]:
        if self._earliest_ms >= 0:
            yield (), max(self._clock.now_ms() - self._earliest_ms, 0)

    def _look(self) -> Steps[None]:
        self._earliest_ms = yield from earliest_time(self._store)
        yield from self._lags.look()
        self._state.look()

    def _make(self) -> Steps[list[bytes]]:
        yield from self._look()
        return (yield from self._page.text())


def extra_labels(text: str) -> dict[str, str]:
    """Parse the setting metricsLabel, "name:value,name:value".

    Invalid characters in names are replaced; labels that metrics already have are left out, because duplicates cannot
    be parsed.
    """
    labels = {}
    for pair in text.split(","):
        given, _, value = pair.partition(":")
        name = _NO_LABEL.sub("_", given.strip())
        if name and name not in _TAKEN:
            labels[f"_{name}" if name[0].isdigit() else name] = value.strip()
    return labels


class Health:
    """The health of a broker: alive and ready. Any answer shows that its event loop runs."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._started_ms = parts.clock.now_ms()

    def alive(self) -> str:
        """Return the text for a broker that is alive, with the seconds since its start or last change of role."""
        seconds = (self._parts.clock.now_ms() - self._started_ms) // 1000
        return f"ok: broker {self._parts.settings.broker_name} has run for {seconds} s"

    def ready(self) -> str:
        """Return the text for a ready broker, with its role and what its log does."""
        role = self._parts.settings.broker_role.name
        master = self._parts.replication().master
        work = "its log accepts messages" if master is None else self._copying(master)
        return f"ready: {role}, recovered, registered, {work}"

    def _copying(self, master: MasterState) -> str:
        """Describe a slave's replication, which does not affect readiness, because the slave can be read without it."""
        name = master.address or "its master, whose address no nameserver returns"
        if master.stopped is not None:
            return f"it has stopped copying from {name}: {master.stopped}"
        if master.is_active:
            return f"it copies from {name}"
        why = f": {master.error}" if master.error else ""
        return f"it cannot copy from {name} now, and tries again{why}"

    def faults(self) -> list[str]:
        """Return the reasons why a broker is not ready; empty if it is."""
        parts, faults = self._parts, []
        store, settings = parts.store, parts.settings
        if store.refusal is not None:
            faults.append(f"the store accepts no messages: {store.refusal}")
        elif store.positions.refusal is not None:
            faults.append(f"no messages are accepted: {store.positions.refusal}")
        if not settings.perm & 2 and not settings.is_slave:
            faults.append(
                "brokerPermission does not allow writing (a drain?); set it to 6 again"
            )
        addresses = settings.nameserver_addresses
        if addresses and not parts.registered():
            faults.append(
                f"not registered at {', '.join(addresses)}; is a nameserver running there?"
            )
        return faults
