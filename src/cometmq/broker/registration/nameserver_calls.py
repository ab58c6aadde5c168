"""Protocols for a broker's requests to nameservers.

`registration.requests` implements them over channels; tests use a simple substitute.
"""

from collections.abc import Callable
from typing import Protocol

from cometmq.broker.tables.client_peer import PeerAnswer
from cometmq.steps.steps import Steps, called_back


class NameserverCalls(Protocol):
    """Sends requests to nameservers, for coroutines."""

    async def call(
        self, address: str, code: int, fields: dict[str, str], body: bytes, *, timeout_ms: int
    ) -> PeerAnswer:
        """Send a request and return the answer, whatever its code; raise CometError if the nameserver gives none."""
        ...


class AskNameservers(Protocol):
    """Sends requests to nameservers, for background jobs: the answer comes by a callback."""

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
        """Send a request; `done` is called later with the answer, whatever its code, or with the error."""
        ...

    def is_connected(self, address: str) -> bool:
        """Return whether the connection to a nameserver is open."""
        ...

    def when_lost(self, address: str, lost: Callable[[], None]) -> None:
        """Call back, later, when the connection to a nameserver is closed; soon if there is none."""
        ...


def answer_of(
    ask: AskNameservers,
    address: str,
    code: int,
    fields: dict[str, str],
    body: bytes = b"",
    *,
    timeout_ms: int,
) -> Steps[PeerAnswer]:
    """Send a request to a nameserver and return the answer, whatever its code; raise CometError if it gives none."""
    answer: PeerAnswer = yield from called_back(
        lambda done: ask(address, code, fields, body, timeout_ms=timeout_ms, done=done)
    )
    return answer
