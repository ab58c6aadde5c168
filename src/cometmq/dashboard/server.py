"""Puts a dashboard together and runs it on the running event loop.

async with Dashboard(DashboardSettings(nameservers="127.0.0.1:9876"), loop_clock()) as dashboard:
    print(dashboard.url)
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Self, cast

import uvicorn

from cometmq.dashboard.app import new_app
from cometmq.dashboard.audit import Audit
from cometmq.dashboard.cluster_clients import ClusterClients
from cometmq.dashboard.connections import (
    HEAD_SECONDS,
    ConnectionPlaces,
    Handshake,
    PageProtocol,
)
from cometmq.dashboard.login_attempts import LoginAttempts
from cometmq.dashboard.page_request import AppContext
from cometmq.dashboard.passwords import FIRST_USER, UserFile
from cometmq.dashboard.proxy_login import behind_proxy
from cometmq.dashboard.rendering import new_environment
from cometmq.dashboard.sessions import Sessions
from cometmq.dashboard.settings import DashboardCluster, DashboardSettings
from cometmq.dashboard.watcher import Watcher
from cometmq.model.clock import Clock
from cometmq.model.errors import NetError, SettingsError

_log = logging.getLogger(__name__)

_TIDY_SECONDS = 30.0
_ACCEPT_PAUSE_SECONDS = 0.1


class Dashboard:
    """The dashboard's web server with all its parts.

    Args:
        settings: Where it listens, and which cluster it shows.
        clock: Source of the time.

    Attributes:
        url: URL of the address that it listens on, set by `start`; empty before.
        first_password: Password of the user `admin` if this start created it, otherwise None.
    """

    def __init__(self, settings: DashboardSettings, clock: Clock) -> None:
        self.url = ""
        self.first_password: str | None = None
        self._settings = settings
        clusters = settings.clusters or (
            DashboardCluster("", settings.nameservers, settings.credentials),
        )
        shared = partial(
            AppContext,
            settings=settings,
            clock=clock,
            sessions=Sessions(),
            users=UserFile(settings.data_dir),
            attempts=LoginAttempts(),
            audit=Audit(settings.data_dir),
            templates=new_environment(),
            csp_reports=[],
        )
        self._contexts: list[AppContext] = []
        for each in clusters:
            clients = ClusterClients(each.nameservers, each.credentials, each.tls)
            watcher = Watcher(clients.own, clock, settings)
            self._contexts.append(shared(cluster=each.name, clients=clients, watcher=watcher))
        self._http: _Http | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = contextlib.AsyncExitStack()

    async def start(self) -> None:
        """Listen and start all parts; pages can be requested when it returns.

        Raises:
            SettingsError: The file of users or the certificate cannot be read.
            NetError: The address cannot be listened on, for example because the port is taken.
            OSError: The data folder cannot be read or written.
        """
        listener = _bound(self._settings.host, self._settings.port)
        self._stack.callback(listener.close)
        try:
            first = self._contexts[0]
            self.first_password = await asyncio.to_thread(first.users.make_first)
            first.audit.open()
            for each in self._contexts:
                await self._stack.enter_async_context(each.clients)
                await each.watcher.start()
                self._stack.push_async_callback(each.watcher.close)
            await self._serve(listener)
        except BaseException:
            await self._stack.aclose()
            raise
        host, port = listener.getsockname()[:2]
        scheme = "https" if self._settings.certificate else "http"
        self.url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    async def _serve(self, listener: socket.socket) -> None:
        settings = self._settings
        places = ConnectionPlaces(settings.trusted_proxies)
        context = _certificate(settings)
        config = uvicorn.Config(
            behind_proxy(new_app(self._contexts), settings.trusted_proxies),
            http=cast("type[asyncio.Protocol]", partial(PageProtocol, places)),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # `behind_proxy` reads them.
            timeout_keep_alive=30,
            timeout_graceful_shutdown=2,
        )
        config.load()
        self._http = _Http(config) if context is None else _Https(config, places, context)
        served = asyncio.ensure_future(self._http.serve(sockets=[listener]))
        self._stack.push_async_callback(_end, self._http, served)
        while not self._http.started:
            if served.done():
                served.result()
                raise NetError("the HTTP server ended at once; its log has the reason")
            await asyncio.sleep(0.01)
        tidied = asyncio.ensure_future(self._tidy())
        self._stack.callback(tidied.cancel)

    async def _tidy(self) -> None:
        """Repeatedly, with pauses of 30 s, forget expired sessions and close the clients of cluster users without a session."""
        while True:
            await asyncio.sleep(_TIDY_SECONDS)
            for each in self._contexts:
                each.sessions.drop_ended(each.clock.now_ms())
                await each.clients.keep_only(each.sessions.has_credentials)

    async def close(self) -> None:
        """Stop listening and polling, and close the connections to browsers and to the cluster."""
        await self._stack.aclose()

    def write_first_password(self) -> Path:
        """Write the password of the user that this start created to a new file for its owner only; return the path.

        Raises OSError if the file exists already or cannot be written, AssertionError if the start created no user.
        """
        assert self.first_password is not None, "it was made at this start"
        path = self._settings.data_dir / "first-password"
        path.touch(0o600, exist_ok=False)
        path.write_text(f"{self.first_password}\n")
        return path

    @property
    def first_user(self) -> str:
        """The name of the user that a start creates if there are no users."""
        return FIRST_USER

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()


class _Http(uvicorn.Server):
    """A uvicorn server that leaves signals to the program that it is part of."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Https(_Http):
    """An HTTPS server that accepts connections itself, so that limits of connections and time include TLS handshakes.

    uvicorn allows any number of connections 60 s each for the handshake.
    """

    def __init__(
        self, config: uvicorn.Config, places: ConnectionPlaces, context: ssl.SSLContext
    ) -> None:
        super().__init__(config)
        self._places = places
        self._context = context
        self._tasks: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections."""
        assert sockets is not None, "the dashboard has bound it"
        for listener in sockets:
            listener.settimeout(0)
            listener.listen(self.config.backlog)
            self._keep(self._accept(listener))
        self.servers = []
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, and let running requests finish for at most the configured 2 s."""
        for task in self._tasks:
            task.cancel()
        await super().shutdown(sockets)

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, name = await loop.sock_accept(listener)
            except OSError as error:  # For example, no descriptor is free.
                _log.warning("The dashboard cannot accept connections: %s; trying again", error)
                await asyncio.sleep(_ACCEPT_PAUSE_SECONDS)
                continue
            handshake = Handshake(connection, name[0], loop.time())
            self._places.enter(handshake)
            self._keep(self._shake_hands(handshake, connection))

    async def _shake_hands(self, handshake: Handshake, connection: socket.socket) -> None:
        def page() -> PageProtocol:
            return PageProtocol(
                self._places,
                handshake,
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )

        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                page, connection, ssl=self._context, ssl_handshake_timeout=HEAD_SECONDS
            )
        except OSError as error:  # Includes TLS errors and timeouts.
            _log.debug("The TLS handshake with %s failed: %s", handshake.address, error)
        finally:
            self._places.leave(handshake)


async def _end(http: _Http, served: "asyncio.Task[None]") -> None:
    http.should_exit = True
    await served


def _certificate(settings: DashboardSettings) -> ssl.SSLContext | None:
    """Return a TLS context with the certificate of the settings, None without. Raises SettingsError if unusable."""
    if settings.certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(settings.certificate, settings.key)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(f"{settings.certificate}, {settings.key}: {error}") from None
    return context


def _bound(host: str, port: int) -> socket.socket:
    """Return a bound socket that does not listen yet, as the first user must exist before. May raise NetError."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise NetError(
            f"the dashboard cannot listen on {host}:{port}: {error.strerror}; choose another --port"
        ) from None
    return made
