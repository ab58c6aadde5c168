"""A client's connection as the broker's services see it, so that tests can replace `net.peer.Peer`."""

from collections.abc import Callable
from typing import Protocol

from cometmq.steps.steps import Steps


class PeerAnswer(Protocol):
    """The answer of a client, a nameserver or a slave's master to a request of the broker.

    Attributes:
        code: `model.codes.ResponseCode`.
        remark: An explanation for people, or None.
    """

    @property
    def code(self) -> int: ...  # noqa: D102
    @property
    def remark(self) -> str | None: ...  # noqa: D102
    @property
    def fields(self) -> dict[str, str]: ...  # noqa: D102
    @property
    def body(self) -> bytes: ...  # noqa: D102


class CloseListeners(Protocol):
    """The callbacks that run when a connection is closed."""

    def append(self, listener: Callable[["ClientPeer"], None], /) -> None:
        """Add a callback, which gets the closed connection."""
        ...


class ClientPeer(Protocol):
    """A client's connection.

    Attributes:
        address: The client's address, "ip:port".
        is_closed: Whether the connection is closed.
        is_paused: Whether the broker does not read from the client, because it has too many unread answers.
        on_close: Callbacks that run when the connection is closed.
    """

    @property
    def address(self) -> str: ...  # noqa: D102
    @property
    def is_closed(self) -> bool: ...  # noqa: D102
    @property
    def is_paused(self) -> bool: ...  # noqa: D102
    @property
    def on_close(self) -> CloseListeners: ...  # noqa: D102

    def notify(self, code: int, fields: dict[str, str], body: bytes = b"") -> None:
        """Send the client a oneway request, which it does not answer; do nothing if the connection is closed."""
        ...

    def call(
        self, code: int, fields: dict[str, str], body: bytes = b"", *, timeout_ms: int = 10_000
    ) -> Steps[PeerAnswer]:
        """Send the client a request and return its answer.

        Raises:
            RequestTimeout: The client did not answer in time.
            ConnectionLost: The client disconnected, or the connection is closing.
        """
        ...

    def close(self) -> None:
        """Close the connection after sending what is already written."""
        ...
