"""The gRPC proxy of a cluster: its client of the brokers, its access control and its port, from start to close."""

import logging

from cometmq.access.guard import access_guard
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.settings import ClientSettings
from cometmq.model.address import is_loopback, join_address
from cometmq.net.clock import SystemClock
from cometmq.net.tasks import Tasks
from cometmq.process.containers import container_with_own_network, listening_host
from cometmq.proxy.cluster.backend import ClusterBackend
from cometmq.proxy.cluster.members import ClusterMembers
from cometmq.proxy.cluster.settings import ProxySettings
from cometmq.proxy.server import ProxyServer
from cometmq.proxy.services.access import gate_of
from cometmq.proxy.v2.sent_messages import SendLimits
from cometmq.steps.on_loop import LoopWorld

_log = logging.getLogger(__name__)

# Of the routes of topics in use (topicRouteServiceCacheRefreshSeconds of RocketMQ's proxy).
_ROUTE_MS = 20_000


class ClusterProxy:
    """A proxy in front of the brokers that a nameserver lists.

    Attributes:
        address: The address that it listens on after `start`, "host:port".
    """

    def __init__(self, settings: ProxySettings) -> None:
        """Make the client of the brokers; raise SettingsError if a nameserver address or the TLS files cannot be used."""
        self.address = ""
        self._settings = settings
        self._tasks = Tasks("proxy")
        self._instance = ClientInstance(
            settings.nameservers or None,
            ClientSettings(
                credentials=settings.credentials(), tls=settings.client_tls(), route_interval_ms=_ROUTE_MS
            ),
        )  # fmt: skip

    async def start(self) -> None:
        """Connect to the brokers, as far as they are there, and serve clients.

        Raises:
            SettingsError, OSError: The users cannot be read.
            NetError: The port cannot be bound.
        """
        settings = self._settings
        clock = SystemClock()
        container = None if settings.bind_address else container_with_own_network()
        guard = access_guard(settings, clock, folder=None, cluster=settings.cluster_name)
        if guard.accounts is not None:
            self._tasks.spawn(guard.accounts.follow(), "accounts")
        await self._instance.start()
        limits = SendLimits(settings.body_size_max, settings.delay_ms_max)
        self._backend = backend = ClusterBackend(self._instance, limits, self._tasks)
        is_certain = container is None or container.is_own_machine_certain
        self._server = ProxyServer(
            lambda: backend,
            clock,
            LoopWorld(),
            gate=gate_of(
                guard.gate, is_own_machine_trusted=settings.is_own_machine_trusted and is_certain
            ),
            idle_seconds=settings.idle_seconds,
            access_address=settings.grpc_access_address,
            tls=settings.server_tls(("h2",)),
            is_shared=True,
        )  # fmt: skip
        backend.members = ClusterMembers(self._instance, self._tasks)
        await backend.members.start()
        host = listening_host(settings.bind_address, container)
        self.address = join_address(host, await self._server.start(host, settings.grpc_port))
        if not is_loopback(host) and guard.gate is None:
            _log.warning(
                "LISTENING ON %s: every client that reaches this address may send and consume",
                host,
            )

    async def close(self) -> None:
        """Let calls end, leave the groups at the brokers, and close all connections."""
        await self._server.close()
        await self._backend.close()
        await self._tasks.close()
        await self._instance.close()
