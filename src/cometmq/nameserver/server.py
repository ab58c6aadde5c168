"""The nameserver: creates its parts, listens, removes silent brokers, and serves metrics if configured."""

import asyncio
import logging
import os
from collections.abc import Callable
from http import HTTPStatus
from math import inf

from cometmq.access.guard import AccessGuard, access_guard
from cometmq.codec.metrics_text import CONTENT_TYPE
from cometmq.model.address import is_loopback, join_address
from cometmq.model.clock import Clock
from cometmq.model.errors import NetError
from cometmq.model.settings import SettingsInForce
from cometmq.model.text import cut, plural, printable
from cometmq.nameserver.handlers.admin import admin_answers
from cometmq.nameserver.handlers.registration import RegistrationHandlers
from cometmq.nameserver.handlers.routes import RouteHandlers
from cometmq.nameserver.kv import KvConfig
from cometmq.nameserver.metrics import metrics_text
from cometmq.nameserver.missing import MissingBrokers
from cometmq.nameserver.requests import request_table
from cometmq.nameserver.routes import RouteTable
from cometmq.nameserver.settings import NameServerSettings
from cometmq.net.connections import Bounds
from cometmq.net.dispatcher import Dispatcher
from cometmq.net.http import HttpAnswer, HttpServer, words
from cometmq.net.loop import beat_sleep, beat_wait
from cometmq.net.requests import Gate
from cometmq.net.server import Server
from cometmq.net.tasks import Tasks
from cometmq.process.containers import (
    ALL_ADDRESSES,
    Container,
    container_with_own_network,
    listening_host,
)
from cometmq.steps.on_loop import LoopWorld
from cometmq.store.conf_file import ConfFile
from cometmq.store.config_file import ConfigFile
from cometmq.store.real_disk import RealDisk

_log = logging.getLogger(__name__)

# Maximum characters of the list of policy resources in a log line.
_RESOURCES_MAX = 500


class NameServer:
    """A nameserver; several are independent, as brokers register with each of them.

    Attributes:
        routes: The route table.
        port: Port that it listens on after `start`.
        host: Host that it listens on: `bindAddress`, else every address in a container with its own network, else loopback.
        in_force: The settings, and the callbacks for changes by a request.
    """

    def __init__(
        self,
        settings: NameServerSettings,
        clock: Clock,
        *,
        conf: ConfFile | None = None,
        find_container: Callable[[], Container | None] = container_with_own_network,
    ) -> None:
        """Create the parts; `start` listens.

        `conf` keeps changes of settings made over the wire; without it they last until the process ends.
        """
        self._container = None if settings.bind_address else find_container()
        self.host = listening_host(settings.bind_address, self._container)
        self.routes = RouteTable(clock, missing=MissingBrokers(settings.missing_hours * 3600.0))
        self.port = settings.listen_port
        self._clock = clock
        self.in_force = SettingsInForce(settings)
        self._conf = conf or ConfFile(None, RealDisk())
        self._has_left = asyncio.Event()
        self._has_come = asyncio.Event()
        self._tasks = Tasks("nameserver")
        self._server: Server | None = None
        self._http = HttpServer(
            {"/metrics": self._metrics, "/healthz": self._alive, "/readyz": self._ready}, clock
        )

    @property
    def metrics_port(self) -> int:
        """Port of /metrics; 0 before `start`, or if it could not be served or is not configured."""
        return self._http.port

    @property
    def address(self) -> str:
        """Address that it listens on after `start`, "host:port"."""
        return join_address(self.host, self.port)

    async def start(self) -> int:
        """Load the key-value configuration, listen, and return the port.

        Raises:
            SettingsError: A setting, or a file of users or TLS, cannot be used.
            NetError: Listening failed.
            CodecError, OSError: kvConfig.json cannot be read, or the users cannot be written.
        """
        settings = self.in_force.current
        guard = self._make_guard()
        server = Server(
            self._dispatcher(guard.gate),
            self._clock,
            bounds=Bounds(
                of_network_max=settings.connections_per_address_max,
                idle_seconds_max=settings.idle_seconds_max,
            ),
            is_own_machine_trusted=self._is_own_machine_trusted,
            tls=settings.server_tls(),
            strangers=guard.gate,
        )
        self.port = await server.start(self.host, settings.listen_port)
        _log.info(
            "Listening on %s; access control is %s; key-value configuration: %s",
            self.address, "on" if settings.is_guarded else "off", settings.kv_config_path or "in memory only",
        )  # fmt: skip
        self._server = server
        self.routes.on_leave = self._has_left.set
        self.routes.on_come = self._has_come.set
        self._tasks.spawn(self._scan(), "expiry")
        self._tasks.spawn(self._sweep(), "sweep")
        await self._serve_pages(settings)
        self._tell_who_can_reach_it()
        return self.port

    @property
    def _is_own_machine_trusted(self) -> bool:
        is_certain = self._container is None or self._container.is_own_machine_certain
        return self.in_force.current.is_own_machine_trusted and is_certain

    def _tell_who_can_reach_it(self) -> None:
        """Log that only this machine can connect, or warn who may change something; nothing if bindAddress chose loopback."""
        if is_loopback(self.host):
            if self.in_force.current.bind_address is None:
                _log.info(
                    "Listening on loopback only, %s: other machines cannot connect, even through a published port of a "
                    "container; write bindAddress=%s to listen on all addresses",
                    self.address, ALL_ADDRESSES,
                )  # fmt: skip
            return
        if self._container is not None:
            _log.info(
                "This is a %s container (%s) with a network of its own, so the nameserver listens on all of its addresses; "
                "set bindAddress to choose one",
                self._container.kind, self._container.mark,
            )  # fmt: skip
        changes = (
            "access control is on"
            if self.in_force.current.is_guarded
            else "requests that change something are only accepted from this machine"
            if self._is_own_machine_trusted
            else "requests that change something are refused, because access control is off and connections of other "
            "machines may look like local ones"
        )
        _log.warning(
            "Listening on %s for every machine that can reach it; %s", self.address, changes
        )

    async def close(self) -> None:
        """Stop the background tasks and listening, and close all connections."""
        await self._tasks.close()
        await self._http.close()
        if self._server is not None:
            await self._server.close()

    async def _serve_pages(self, settings: NameServerSettings) -> None:
        """Serve /metrics, /healthz and /readyz if configured; log a warning and continue if the port cannot be used."""
        if settings.metrics_port is None:
            return
        try:
            await self._http.start(settings.metrics_host, settings.metrics_port)
        except NetError as error:
            _log.warning(
                "The metrics page cannot be served: %s; set another metricsPromExporterPort",
                error,
            )
            return
        _log.info("Metrics at http://%s:%d/metrics", settings.metrics_host, self.metrics_port)

    async def _metrics(self) -> HttpAnswer:
        assert self._server is not None
        text = metrics_text(self.routes, len(self._server.peers))
        return HttpAnswer((text,), content_type=CONTENT_TYPE)

    async def _alive(self) -> HttpAnswer:
        count = len(self.routes.live)
        return words(f"alive: {count} {plural(count, 'broker is', 'brokers are')} registered")

    async def _ready(self) -> HttpAnswer:
        if left := self._route_handlers.seconds_to_wait():
            return words(
                f"not ready: it waits {left:.0f} s more for brokers to register (needWaitForService)",
                HTTPStatus.SERVICE_UNAVAILABLE,
            )
        return words("ready: routes are answered")

    def _dispatcher(self, gate: Gate | None) -> Dispatcher:
        path = self.in_force.current.kv_config_path
        file = ConfigFile(os.path.abspath(path), RealDisk()) if path else None  # noqa: PTH100  The disk port takes texts.
        world = LoopWorld()
        kv = KvConfig(file, world)
        self._route_handlers = RouteHandlers(self.routes, kv, self.in_force, self._clock, world)
        answers = (
            RegistrationHandlers(self.routes, kv, self.in_force).answers,
            self._route_handlers.answers,
            admin_answers(self.routes, kv, self.in_force, self._conf),
        )
        return Dispatcher(request_table(answers, gate), world=world)

    def _make_guard(self) -> AccessGuard:
        """Return a new access guard, empty without access control; with ACL 1.0, follow changes of its files."""
        settings = self.in_force.current
        guard = access_guard(settings, self._clock, folder=None, cluster=settings.cluster_name)
        if guard.users is not None and (others := guard.users.other_clusters()):
            _log.warning(
                "Policies with the resources %s have no effect at this nameserver with clusterName=%s: set "
                "clusterName to the cluster of the brokers",
                cut(printable(", ".join(others)), _RESOURCES_MAX),
                settings.cluster_name,
            )
        if guard.accounts is not None:
            self._tasks.spawn(guard.accounts.follow(), "accounts")
        return guard

    async def _scan(self) -> None:
        """Remove silent brokers: scan about one interval after the start, a new broker or a possible timeout."""
        while True:
            await beat_sleep(self.in_force.current.scan_interval_ms / 1000)
            self._has_come.clear()
            self.routes.drop_silent()
            pause = self.routes.next_silent() - self._clock.monotonic()
            # A new broker may time out earlier than the known ones.
            if pause < inf:
                await beat_wait(self._has_come, pause)
            else:
                await self._has_come.wait()

    async def _sweep(self) -> None:
        """Remove queues of brokers that have left, serving other requests between the steps."""
        while True:
            await self._has_left.wait()
            self._has_left.clear()
            for _ in self.routes.sweep():
                await asyncio.sleep(0)
