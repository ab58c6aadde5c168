"""The base of blocking clients, which run an asyncio client on the loop's thread (`client/lifecycle.py`)."""

from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from cometmq.client.lifecycle import AsyncClient, AsyncGroupClient
from cometmq.client.sync.portal import Portal, portal

if TYPE_CHECKING:  # A producer is not to wait for the modules of administration.
    from cometmq.client.admin.noun import AsyncNoun

Client = TypeVar("Client", bound=AsyncClient)
Noun = TypeVar("Noun", bound="AsyncNoun")
GroupClient = TypeVar("GroupClient", bound=AsyncGroupClient)


class BlockingClient(Generic[Client]):
    """The base of all blocking clients.

    Args:
        client: The asyncio client that does the work.

    Raises:
        SettingsError: gevent or eventlet has replaced threads.
    """

    def __init__(self, client: Client) -> None:
        client.class_name = type(self).__name__
        self._home = portal()
        self._is_begun = False
        self._client = client

    def __repr__(self) -> str:
        return repr(self._client)

    @property
    def client_id(self) -> str:
        """The id under which brokers list this client."""
        return self._client.client_id

    @property
    def _portal(self) -> Portal:
        """The portal of the client; a client that was made but not started before a fork uses the child's portal."""
        if self._home.is_lost and not self._is_begun:
            self._home = portal()
        return self._home

    def start(self) -> None:
        """Start the client; do nothing if it is running.

        If the start fails, all parts are closed and the start can be repeated.

        Raises:
            ClientClosed: The client was closed, make a new one; or it was started before a fork.
        """
        home = self._portal
        self._is_begun = True
        home.call(self._client.start)

    def close(self) -> None:
        """Close the client; do nothing unless it is running.

        If a call is interrupted, the next call continues with the parts that are still open. Does nothing in a forked
        child and at the interpreter's exit.
        """
        self._portal.end(self._client.close)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._portal.end(self._client.__aexit__, kind, error, trace)


class BlockingNoun(Generic[Noun]):
    """The base of the subjects of a blocking admin client, such as its topics.

    Args:
        portal: Runs the calls.
        client: The asyncio subject that does the work.
    """

    def __init__(self, portal: Portal, client: Noun) -> None:
        self._portal = portal
        self._client = client


class BlockingGroupClient(BlockingClient[GroupClient]):
    """The base of blocking clients that are members of a group."""

    @property
    def group(self) -> str:
        """The group name with its namespace, as brokers list it."""
        return self._client.group
