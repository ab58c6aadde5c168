"""Sends a broker's requests to nameservers, and a slave's to its master, over channels."""

from collections.abc import Callable

from cometmq.broker.tables.client_peer import PeerAnswer
from cometmq.codec.remoting import Command
from cometmq.net.channels import Channels
from cometmq.net.tasks import Tasks


class NameserverChannels:
    """Sends requests to nameservers, for coroutines and for background jobs (`nameserver_calls`)."""

    def __init__(self, channels: Channels) -> None:
        """The owner of the channels closes them, which ends all requests."""
        self._channels = channels
        self._tasks = Tasks("nameservers")

    async def call(
        self, address: str, code: int, fields: dict[str, str], body: bytes, *, timeout_ms: int
    ) -> Command:
        """Send a request and return the answer, whatever its code; raise CometError if the nameserver gives none."""
        command = Command(code, fields=fields, body=body)
        return await self._channels.call(address, command, timeout_ms=timeout_ms)

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
        """Send a request in a background task; `done` gets the answer and None, or None and the error."""
        work = self._ask(address, Command(code, fields=fields, body=body), timeout_ms, done)
        self._tasks.spawn(work, f"{code} at {address}")

    async def _ask(
        self,
        address: str,
        command: Command,
        timeout_ms: int,
        done: Callable[[PeerAnswer | None, BaseException | None], None],
    ) -> None:
        try:
            answer = await self._channels.call(address, command, timeout_ms=timeout_ms)
        except Exception as error:  # noqa: BLE001  The caller handles it.
            done(None, error)
        else:
            done(answer, None)

    def is_connected(self, address: str) -> bool:
        """Return whether the connection to a nameserver is open."""
        return self._channels.peek(address) is not None

    def when_lost(self, address: str, lost: Callable[[], None]) -> None:
        """Call back, later, when the connection to a nameserver is closed; soon if there is none."""
        self._tasks.spawn(self._wait_lost(address, lost), f"loss of {address}")

    async def _wait_lost(self, address: str, lost: Callable[[], None]) -> None:
        channel = self._channels.peek(address)
        if channel is not None:
            await channel.wait_gone()
        lost()
