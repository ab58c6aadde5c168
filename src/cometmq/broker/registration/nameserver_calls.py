"""The calls of a broker to nameservers: to ask one, and to know whether it is there.

`registration.requests` has what does it over channels; a test's is made of lists.
"""

from collections.abc import Callable
from typing import Protocol

from cometmq.broker.tables.client_peer import PeerAnswer


class NameserverCalls(Protocol):
    """Connections to nameservers."""

    async def call(
        self, address: str, code: int, fields: dict[str, str], body: bytes, *, timeout_ms: int
    ) -> PeerAnswer:
        """Ask a nameserver, and wait for its answer, whatever its code.

        Raises:
            CometError: it cannot be reached, or does not answer.
        """
        ...


class AskNameservers(Protocol):
    """A call that asks a nameserver and calls back with the answer, for machines."""

    def __call__(
        self,
        address: str,
        code: int,
        fields: dict[str, str],
        body: bytes,
        *,
        timeout_ms: int,
        done: Callable[[PeerAnswer | None, BaseException | None], None],
    ) -> None:
        """Ask a nameserver; `done` is called later, with the answer, whatever its code, or with a CometError."""
        ...

    def is_connected(self, address: str) -> bool:
        """Whether the connection to a nameserver still stands."""
        ...

    def when_lost(self, address: str, lost: Callable[[], None]) -> None:
        """Call back, later, when the connection to a nameserver stands no more."""
        ...
