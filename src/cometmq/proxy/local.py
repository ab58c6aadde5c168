"""The gRPC proxy of one broker, in the broker's process."""

import logging

from cometmq.broker.role import RunningRole
from cometmq.broker.server import Broker
from cometmq.proxy.local_backend import LocalBackend
from cometmq.proxy.server import ProxyServer
from cometmq.proxy.services.access import gate_of
from cometmq.steps.on_loop import LoopWorld
from cometmq.wire.h2.choice import ENGINE

_log = logging.getLogger(__name__)


class _Backends:
    """The services of a broker in its current role."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._role: RunningRole | None = None
        self._backend: LocalBackend | None = None

    def current(self) -> LocalBackend:
        """Return the services of the broker; raise ProxyRefusal if it is not a master now."""
        role = self._broker.role
        if self._backend is None or role is not self._role:
            self._backend, self._role = LocalBackend(role), role
        return self._backend


async def start_local(broker: Broker, port: int, access_address: str) -> ProxyServer:
    """Start to serve gRPC clients at a started broker's host, and return the proxy; close it before the broker.

    Args:
        broker: The broker.
        port: The port, 0 for any free one.
        access_address: The "host:port" in the routes of clients; empty: the one that the client uses.

    Raises:
        NetError: The port cannot be bound.
    """
    parts = broker.role.parts
    proxy = ProxyServer(
        _Backends(broker).current,
        parts.clock,
        LoopWorld(parts.pool, parts.store),
        gate=gate_of(parts.guard.gate, is_own_machine_trusted=broker.is_own_machine_trusted),
        idle_seconds=parts.settings.client_timeout_ms / 1_000,
        access_address=access_address,
        tls=parts.settings.server_tls(("h2",)),
    )
    await proxy.start(broker.listen_host, port)
    _log.info(
        "gRPC clients are served on %s:%d, with HTTP/2 by %s",
        broker.listen_host, proxy.port, ENGINE,
    )  # fmt: skip
    return proxy
