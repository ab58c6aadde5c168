"""The life of a blocking client: that of its asyncio client, on the loop's thread (`client/lifecycle.py`)."""

from types import TracebackType
from typing import Generic, Self, TypeVar

from cometmq.client.lifecycle import AsyncClient, AsyncGroupClient
from cometmq.client.sync.portal import Portal, portal

Client = TypeVar("Client", bound=AsyncClient)
GroupClient = TypeVar("GroupClient", bound=AsyncGroupClient)


class BlockingClient(Generic[Client]):
    """A blocking client; the base of all of them.

    Args:
        client: The asyncio client that does the work.

    Raises:
        SettingsError: gevent or eventlet has replaced `threading`.
    """

    def __init__(self, client: Client) -> None:
        client.class_name = type(self).__name__
        self._home = portal()
        self._is_begun = False
        self._client = client

    def __repr__(self) -> str:
        """The class, the client id and the nameservers."""
        return repr(self._client)

    @property
    def client_id(self) -> str:
        """The id by which brokers know this client."""
        return self._client.client_id

    @property
    def _portal(self) -> Portal:
        """The portal on which the client lives; one that was only constructed before a fork lives on that of the child."""
        if self._home.is_lost and not self._is_begun:
            self._home = portal()
        return self._home

    def start(self) -> None:
        """Start the client; one that runs already is left as it is.

        If it fails, nothing is left of it, and it can be tried again.

        Raises:
            ClientClosed: The client was closed, make a new one; or it was started before a fork.
        """
        home = self._portal
        self._is_begun = True
        home.call(self._client.start)

    def close(self) -> None:
        """Close the client; one that is not running is left as it is.

        A call that was broken off has not closed all of it; the next call goes on there. In the child of a fork, and when
        the interpreter exits, it does nothing.
        """
        self._portal.end(self._client.close)

    def __enter__(self) -> Self:
        """Start the client."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the client."""
        self._portal.end(self._client.__aexit__, kind, error, trace)


class BlockingGroupClient(BlockingClient[GroupClient]):
    """A blocking client of a group."""

    @property
    def group(self) -> str:
        """The group, as brokers know it."""
        return self._client.group
