"""Requests of a slave to its master: calls become frames, over channels of ours."""

from collections.abc import Callable, Mapping

from cometmq.broker.tables.client_peer import PeerAnswer
from cometmq.broker.tables.table_copies import TABLES
from cometmq.codec.remoting import Command
from cometmq.net.channel import Channel
from cometmq.net.channels import Channels
from cometmq.net.tasks import Tasks

# So long a master may take; BrokerOuterAPI waits 3 s for tables that are a tenth as large.
TIMEOUT_MS = 10_000


class MasterChannel:
    """Asks a master (`slave.metadata.AskMaster`)."""

    def __init__(self, channels: Channels) -> None:
        """The channels are closed by their owner, which ends each question."""
        self._channels = channels
        self._tasks = Tasks("master")

    def __call__(
        self,
        address: str,
        code: int,
        fields: Mapping[str, str],
        done: Callable[[PeerAnswer | None, BaseException | None], None],
    ) -> None:
        """Ask; `done` is called with the answer, or why there is none."""
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
        except Exception as error:  # noqa: BLE001  Whoever asked decides.
            done(None, error)
        else:
            done(answer, None)


def told_by_master(look: Callable[[], None]) -> Callable[[Command, Channel], None]:
    """Return the handler of what a master sends its slave by itself: `look` looks at the tables, one of which has changed."""

    def told(command: Command, _channel: Channel) -> None:
        if command.code in TABLES:
            look()

    return told
