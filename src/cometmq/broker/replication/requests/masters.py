"""Sends a slave's requests to its master."""

from collections.abc import Callable, Mapping

from cometmq.broker.tables.client_peer import PeerAnswer
from cometmq.broker.tables.table_copies import TABLES
from cometmq.codec.remoting import Command
from cometmq.net.channel import Channel
from cometmq.net.channels import Channels
from cometmq.net.tasks import Tasks

# Timeout for an answer; BrokerOuterAPI waits 3 s, for tables a tenth as large.
TIMEOUT_MS = 10_000


class MasterChannel:
    """Sends requests to a master (`replication.metadata.AskMaster`)."""

    def __init__(self, channels: Channels) -> None:
        """The owner of the channels closes them, which ends all requests."""
        self._channels = channels
        self._tasks = Tasks("master")

    def __call__(
        self,
        address: str,
        code: int,
        fields: Mapping[str, str],
        done: Callable[[PeerAnswer | None, BaseException | None], None],
    ) -> None:
        """Send the master a request in a background task; `done` gets the answer and None, or None and the error."""
        self._tasks.spawn(self._ask(address, code, fields, done), f"master-{code}")

    async def _ask(
        self,
        address: str,
        code: int,
        fields: Mapping[str, str],
        done: Callable[[PeerAnswer | None, BaseException | None], None],
    ) -> None:
        try:
            answer = await self._channels.call(
                address, Command(code, fields=dict(fields)), timeout_ms=TIMEOUT_MS
            )
        except Exception as error:  # noqa: BLE001  The caller handles it.
            done(None, error)
        else:
            done(answer, None)


def told_by_master(look: Callable[[], None]) -> Callable[[Command, Channel], None]:
    """Return the handler of a master's notifications, which calls `look` if one is about a table."""

    def told(command: Command, _channel: Channel) -> None:
        if command.code in TABLES:
            look()

    return told
