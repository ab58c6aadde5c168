"""The life of a client: made, starting, running, closing, closed. All client classes have this one.

A client lives once. A start that fails, or is cancelled, leaves nothing behind and can be tried again. A close that was
cut off is finished by the next one. A closed client is refused: make a new one (RocketMQ's and Kafka's clients do so, too).
"""

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable
from typing import Self

from cometmq.client.connection.instance import ClientInstance
from cometmq.client.settings import ClientSettings
from cometmq.model.errors import ClientClosed
from cometmq.model.names import check_group
from cometmq.model.namespace import namespace_of

_log = logging.getLogger(__name__)


class ClientState(enum.Enum):
    """The stages of a client's life."""

    MADE = enum.auto()
    STARTING = enum.auto()
    RUNNING = enum.auto()
    CLOSING = enum.auto()
    CLOSED = enum.auto()


class AsyncClient:
    """A client with its life; the base of all client classes.

    A subclass starts its parts in `_open`, and names there, by `_at_close`, the steps that end them.

    Attributes:
        class_name: The class that the user made, for `repr` and errors; a blocking twin sets its own.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        settings: Namespace and times.
        instance: Share another client's connections; its owner closes it.

    Raises:
        SettingsError: A nameserver address cannot be read.
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
        self._steps: list[Callable[[], Awaitable[None] | None]] = []
        self._changing = asyncio.Lock()
        self.class_name = type(self).__name__

    def __repr__(self) -> str:
        """The class, the client id and the nameservers."""
        return f"<{self.class_name} of {self._instance!r}>"

    @property
    def client_id(self) -> str:
        """The id by which brokers know this client."""
        return self._instance.client_id

    # --- life

    async def start(self) -> None:
        """Start the client; one that runs already is left as it is.

        If it fails or is cancelled, nothing is left of it, and it can be tried again.

        Raises:
            ClientClosed: The client was closed; make a new one.
        """
        async with self._changing:
            if self._state is ClientState.RUNNING:
                return
            if self._state is not ClientState.MADE:
                self._check_running()
            await self._end_steps()  # Of a failed start whose end was cut off.
            self._state = ClientState.STARTING
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
        """Close the client; one that is not running is left as it is.

        A call that was cancelled has not closed all of it; the next call goes on there.
        """
        async with self._changing:
            if self._state is ClientState.RUNNING:
                self._state = ClientState.CLOSING
            await self._end_steps()
            if self._state is ClientState.CLOSING:
                self._state = ClientState.CLOSED

    async def __aenter__(self) -> Self:
        """Start the client."""
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Close the client."""
        await self.close()

    async def _open(self) -> None:
        """Start the parts of this client; its connections are started already."""

    def _at_close(self, step: Callable[[], Awaitable[None] | None]) -> None:
        """Run a step when the client is closed, or when its start fails; the last one is run first.

        Args:
            step: Ends a part. It is run again if it was cut off.
        """
        self._steps.append(step)

    async def _end_steps(self) -> None:
        while self._steps:
            try:
                ended = self._steps[-1]()
                if ended is not None:
                    await ended
            except Exception:  # noqa: BLE001  The other parts are closed whatever it was.
                _log.exception("%r: a part of it was not closed in order", self)
            self._steps.pop()

    @property
    def _live(self) -> ClientInstance:
        """The connections of the client, which runs.

        Raises:
            ClientClosed: It does not.
        """
        self._check_running()
        return self._instance

    @property
    def _is_open(self) -> bool:
        """Whether its parts work: while it runs, and already while it starts."""
        return self._state in (ClientState.STARTING, ClientState.RUNNING)

    def _check_running(self) -> None:
        """Refuse a call of a client that does not run.

        Raises:
            ClientClosed: It was not started, or it was closed.
        """
        if self._state is ClientState.RUNNING:
            return
        if self._state in (ClientState.CLOSING, ClientState.CLOSED):
            raise ClientClosed(
                f"{self!r} was closed, and a closed client is not started again; make a new {self.class_name}"
            )
        block = "async with" if self.class_name == type(self).__name__ else "with"
        raise ClientClosed(
            f"{self!r} is not running; use it inside `{block}`, or call start() first"
        )


class AsyncGroupClient(AsyncClient):
    """A client of a group.

    Args:
        nameservers: As of `AsyncClient`.
        settings: As of `AsyncClient`.
        instance: As of `AsyncClient`.
        group: The group, without its namespace.

    Raises:
        SettingsError: A nameserver address cannot be read.
        RequestError: The group's name is illegal.
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
        """The class, the group, the client id and the nameservers."""
        return f"<{self.class_name} {self._group} of {self._instance!r}>"

    @property
    def group(self) -> str:
        """The group, as brokers know it."""
        return self._group
