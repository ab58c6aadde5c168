"""A client's connection as services see it: to tell it something, ask it something, and hear when it is gone.

`net.peer.Peer` is one, and services know no other word for it; a test's is made of lists.
"""

from collections.abc import Callable
from typing import Protocol


class PeerAnswer(Protocol):
    """The answer of a client, or of a nameserver, to a request of the broker.

    Attributes:
        code: `model.codes.ResponseCode`.
        remark: its words for people.
        fields: the values that it names.
        body: and what comes with them.
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
    """The callbacks that run when a connection is gone."""

    def append(self, listener: Callable[["ClientPeer"], None], /) -> None:
        """One more, called once with the connection."""
        ...


class ClientPeer(Protocol):
    """A client's connection.

    Attributes:
        address: its "ip:port".
        is_closed: whether the connection is gone.
        is_paused: whether it reads slower than we write.
        on_close: who is called when it is gone.
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
        """Tell the client something; it does not answer."""
        ...

    async def call(
        self, code: int, fields: dict[str, str], body: bytes = b"", *, timeout_ms: int = 10_000
    ) -> PeerAnswer:
        """Ask the client something and wait for its answer.

        Raises:
            RequestTimeout: no answer in time.
            ConnectionLost: the client went away.
        """
        ...

    def close(self) -> None:
        """Close the connection; what is already written still goes out."""
        ...
