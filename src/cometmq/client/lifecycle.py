"""The life cycle of the asyncio client classes: made, starting, running, closing, closed.

A start that fails or is cancelled closes its parts and can be repeated. A cancelled close is completed by the next
one. A client that has run and was closed cannot be started again (as in RocketMQ and Kafka); make a new one. From its
start to its close a client belongs to one event loop; calls on others are refused.
"""

import asyncio
import enum
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Self

from cometmq.client.connection.instance import ClientInstance
from cometmq.client.settings import ClientSettings
from cometmq.model.errors import ClientClosed
from cometmq.model.names import check_group
from cometmq.model.namespace import namespace_of
from cometmq.model.text import in_quotes
from cometmq.net.loop import check_threads

_log = logging.getLogger(__name__)


class ClientState(enum.Enum):
    """The states of a client's life cycle: MADE, STARTING, RUNNING, CLOSING, CLOSED."""

    MADE = enum.auto()
    STARTING = enum.auto()
    RUNNING = enum.auto()
    CLOSING = enum.auto()
    CLOSED = enum.auto()


class AsyncClient:
    """An asyncio client with start and close; the base of all asyncio client classes (blocking ones: `BlockingClient`).

    A subclass starts its parts in `_open` and registers there, with `_at_close`, the steps that stop them.

    Attributes:
        class_name: Name of the class that the user made, for `repr` and errors; a blocking twin sets its own.

    Args:
        nameservers: "host:port;host:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        settings: Settings of the client; None: the defaults.
        instance: Connections of another client to use instead of own ones to `nameservers`; their owner closes them.

    Raises:
        SettingsError: A nameserver address, or the credentials or TLS settings (also of the environment), are unusable.
    """

    def __init__(
        self,
        nameservers: str | None,
        settings: ClientSettings | None,
        instance: ClientInstance | None,
    ) -> None:
        self._namespace = namespace_of(settings.namespace if settings else "")
        self._instance = instance or ClientInstance(nameservers, settings)
        self._owns_instance = instance is None
        self._state = ClientState.MADE
        self._loop: asyncio.AbstractEventLoop | None = None  # While parts are open.
        self._pid = os.getpid()
        self._steps: list[Callable[[], Awaitable[None] | None]] = []
        self._changing = asyncio.Lock()
        self.class_name = type(self).__name__

    def __repr__(self) -> str:
        return f"<{self.class_name} of {self._instance!r}>"

    @property
    def _named(self) -> str:
        return f"the {self.class_name} {self.client_id}"

    @property
    def client_id(self) -> str:
        """The id by which brokers list this client if it joins a group; clients that share connections have the same id."""
        return self._instance.client_id

    # --- life cycle

    async def start(self) -> None:
        """Start the client on the running event loop, or do nothing if it is running there.

        If the start fails or is cancelled, it closes the parts that it started, and the caller can repeat it.

        Raises:
            ClientClosed: The client has run before and was closed, or it was started on another event loop.
            SettingsError: gevent or eventlet has replaced threads.
        """
        check_threads()
        self._check_loop()
        async with self._changing:
            if self._state is not ClientState.MADE:
                self._check_running()
                return
            await (
                self._end_steps()
            )  # Left over from a failed start whose cleanup was cancelled.
            self._state = ClientState.STARTING
            self._loop, self._pid = asyncio.get_running_loop(), os.getpid()
            try:
                if self._owns_instance:
                    self._at_close(self._instance.close)
                await self._instance.start()
                await self._open()
            except BaseException:
                self._state = ClientState.MADE
                await self._end_steps()
                raise
            self._state = ClientState.RUNNING

    async def close(self) -> None:
        """Close the client; if it is not running, only release what a failed start or a cancelled close left open.

        Errors of closing a part are only logged. If a call is cancelled, the next call repeats the interrupted part. If the
        event loop of the start has been closed, or runs in the parent of this process, no part is closed.

        Raises:
            ClientClosed: The client was started on another event loop, which can still run.
        """
        if self._is_cut_off:
            self._steps.clear()
            self._loop = None
        self._check_loop()
        async with self._changing:
            if self._state is ClientState.RUNNING:
                self._state = ClientState.CLOSING
            await self._end_steps()
            if self._state is ClientState.CLOSING:
                self._state = ClientState.CLOSED

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def _open(self) -> None:
        """Start the parts of this client; called once its connections are started. Does nothing unless overridden."""

    def _at_close(self, step: Callable[[], Awaitable[None] | None]) -> None:
        """Register a step that stops a part, to run at close or when the start fails; the last registered step runs first.

        A step that was cancelled runs again at the next `close`, or if a start had failed, at the next `start` or `close`.
        """
        self._steps.append(step)

    async def _end_steps(self) -> None:
        while self._steps:
            try:
                ended = self._steps[-1]()
                if ended is not None:
                    await ended
            except Exception:  # noqa: BLE001  The other parts are closed whatever the error was.
                _log.exception(
                    "A part of %s could not be closed; the other parts are closed", self._named
                )
            self._steps.pop()
        self._loop = None

    @property
    def _live(self) -> ClientInstance:
        """Return the connections of the running client; raise ClientClosed if it is not running."""
        self._check_running()
        return self._instance

    @property
    def _is_open(self) -> bool:
        return self._state in (ClientState.STARTING, ClientState.RUNNING)

    @property
    def _is_cut_off(self) -> bool:
        """Whether the event loop of the start has been closed, or runs in the parent of this process."""
        return self._loop is not None and (self._loop.is_closed() or self._pid != os.getpid())

    def _check_loop(self) -> None:
        if self._loop is None or self._loop is _running_loop():
            return
        if self._pid != os.getpid():
            raise ClientClosed(
                f"{self._named} was started before fork(); create a new one here"
            )
        raise ClientClosed(
            f"{self._named} was started on another event loop; create one {self.class_name} for each event loop"
        )

    def _check_running(self) -> None:
        if self._state is ClientState.RUNNING:
            self._check_loop()
            return
        if self._state in (ClientState.CLOSING, ClientState.CLOSED):
            raise ClientClosed(
                f"{self._named} was closed and cannot be used again; create a new {self.class_name}"
            )
        block = "async with" if self.class_name == type(self).__name__ else "with"
        raise ClientClosed(
            f"{self._named} is not running; use it inside `{block}`, or call start() first"
        )


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class AsyncGroupClient(AsyncClient):
    """An asyncio client with a group; the base of the asyncio producers, consumers, queue readers and replay claims.

    Args:
        nameservers: "host:port;host:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        settings: Settings of the client; None: the defaults.
        instance: Connections of another client to use instead of own ones to `nameservers`; their owner closes them.
        group: The group, with or without its namespace.

    Raises:
        SettingsError: A nameserver address, or the credentials or TLS settings (also of the environment), are unusable.
        RequestError: The name of the group is invalid.
    """

    def __init__(
        self,
        nameservers: str | None,
        settings: ClientSettings | None,
        instance: ClientInstance | None,
        group: str,
    ) -> None:
        check_group(group)
        super().__init__(nameservers, settings, instance)
        self._group = self._namespace.wrap(group)

    def __repr__(self) -> str:
        return f"<{self.class_name} {self._group} of {self._instance!r}>"

    @property
    def _named(self) -> str:
        return f"the {self.class_name} of group {in_quotes(self._group)}"

    @property
    def group(self) -> str:
        """The group name as sent to brokers: with the prefix of the namespace, if one is set and applies to the group."""
        return self._group
