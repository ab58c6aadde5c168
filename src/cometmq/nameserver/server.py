"""The nameserver: builds its parts, listens, and looks for silent brokers.

Next: cometmq.nameserver.handlers.registration
"""

import asyncio
import contextlib
import logging
import os
from math import inf

from cometmq.access.account_files import follow
from cometmq.access.gate import AccessGate
from cometmq.access.guard import access_guard
from cometmq.model.clock import Clock
from cometmq.model.settings import SettingsInForce
from cometmq.nameserver.expiry import Expiry
from cometmq.nameserver.handlers.admin import AdminHandlers
from cometmq.nameserver.handlers.registration import RegistrationHandlers
from cometmq.nameserver.handlers.routes import RouteHandlers
from cometmq.nameserver.kv import KvConfig
from cometmq.nameserver.missing import MissingBrokers
from cometmq.nameserver.requests import request_table
from cometmq.nameserver.routes import RouteTable
from cometmq.nameserver.settings import NameServerSettings
from cometmq.net.dispatcher import Dispatcher
from cometmq.net.server import Server
from cometmq.net.tasks import Tasks
from cometmq.store.conf_file import ConfFile
from cometmq.store.config_file import ConfigFile
from cometmq.store.real_disk import RealDisk

_log = logging.getLogger(__name__)


class NameServer:
    """One nameserver. Several know nothing of each other: brokers register at all of them.

    Attributes:
        routes: what brokers have told it.
        port: where it listens, once started.
    """

    def __init__(
        self, settings: NameServerSettings, clock: Clock, *, conf: ConfFile | None = None
    ) -> None:
        """Nothing listens yet; see `start`.

        Args:
            settings: what holds at the start.
            clock: time.
            conf: where changes of settings over the wire are kept; without it they last until
                the end of the process.
        """
        self.routes = RouteTable(clock, missing=MissingBrokers(settings.missing_hours * 3600.0))
        self.port = settings.listen_port
        self._clock = clock
        self._settings = SettingsInForce(settings)
        self._conf = conf or ConfFile(None, RealDisk())
        self._expiry = Expiry(self.routes)
        self._has_left = asyncio.Event()
        self._has_come = asyncio.Event()
        self._tasks = Tasks("nameserver")
        self._server: Server | None = None

    @property
    def address(self) -> str:
        """What clients and brokers are told, host:port."""
        host = self._settings.current.listen_host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    async def start(self) -> int:
        """Read kvConfig.json and listen; the port.

        Raises:
            NetError: the address cannot be listened on.
            CodecError, OSError: kvConfig.json cannot be read.
        """
        settings = self._settings.current
        server = Server(
            self._dispatcher(),
            self._clock,
            connections_per_address_max=settings.connections_per_address_max,
            idle_seconds_max=settings.idle_seconds_max,
            tls=settings.server_tls(),
        )
        self.port = await server.start(settings.listen_host, settings.listen_port)
        self._server = server
        self.routes.on_leave = self._has_left.set
        self.routes.on_come = self._has_come.set
        self._tasks.spawn(self._scan(), "expiry")
        self._tasks.spawn(self._sweep(), "sweep")
        if settings.bind_address is not None:
            _log.warning(
                "listening on %s for everyone who reaches it; %s",
                self.address,
                "rights are asked for"
                if settings.is_guarded
                else "requests that change something are taken from this machine only",
            )
        return self.port

    async def close(self) -> None:
        """Stop listening and close all connections."""
        await self._tasks.close()
        if self._server is not None:
            await self._server.close()

    def _dispatcher(self) -> Dispatcher:
        path = self._settings.current.kv_config_path
        kv = KvConfig(ConfigFile(os.path.abspath(path), RealDisk()) if path else None)  # noqa: PTH100  The disk port takes texts.
        answers = (
            RegistrationHandlers(self.routes, kv, self._expiry, self._settings).answers,
            RouteHandlers(self.routes, kv, self._settings, self._clock).answers,
            AdminHandlers(self.routes, kv, self._settings, self._conf).answers,
        )
        return Dispatcher(request_table(answers, self._gate()))

    def _gate(self) -> AccessGate | None:
        """What asks for rights, where there is access control; files of accounts are followed from now on."""
        guard = access_guard(self._settings.current, self._clock, folder=None)
        if guard.accounts is not None:
            self._tasks.spawn(follow(guard.accounts), "accounts")
        return guard.gate

    async def _scan(self) -> None:
        """Remove silent brokers: when the first may be, and once a period at most."""
        while True:
            await asyncio.sleep(self._settings.current.scan_interval_ms / 1000)
            self._has_come.clear()
            self._expiry.scan()
            pause = self.routes.next_silent() - self._clock.monotonic()
            with contextlib.suppress(TimeoutError):
                # One that came may be silent sooner than those that were known.
                async with asyncio.timeout(pause if pause < inf else None):
                    await self._has_come.wait()

    async def _sweep(self) -> None:
        """Take out what brokers leave behind, with everybody else's requests between two steps."""
        while True:
            await self._has_left.wait()
            self._has_left.clear()
            for _ in self.routes.sweep():
                await asyncio.sleep(0)
