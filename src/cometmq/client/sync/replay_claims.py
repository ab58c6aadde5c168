"""The blocking `ReplayClaims`: made by tools/sync_facade.py from cometmq.client.admin.replay_claims; do not edit."""

from collections.abc import Sequence

from cometmq.client.admin.replay import ReplayCandidate
from cometmq.client.admin.replay_claims import AsyncReplayClaims
from cometmq.client.admin.replay_ledger import LetterId
from cometmq.client.settings import ClientSettings
from cometmq.client.sync.client import BlockingGroupClient


class ReplayClaims(BlockingGroupClient[AsyncReplayClaims]):
    """Claims of dead letters, each taken before they are sent again and ended when they are.

    The start finds the ledger, or makes it. After the close nothing is renewed any more.

    Args:
        nameservers: "ip:port;ip:port" of the cluster with the dead letters; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: the consumer group that gave them up.
        settings: times.

    Raises:
        SettingsError: a nameserver address cannot be read.
    """

    def __init__(
        self,
        nameservers: str | None = None,
        *,
        group: str,
        settings: ClientSettings | None = None,
    ) -> None:
        super().__init__(AsyncReplayClaims(nameservers, group=group, settings=settings))

    def take(self, run: str, letters: Sequence[ReplayCandidate]) -> set[LetterId]:
        """Claim the letters that this run is to send: those that nobody else has sent.

        Waits while another run has one of them. What is taken is renewed until `end`.

        Args:
            run: the same when the same letters come again, and nobody else's.
            letters: those that are to be sent now.

        Raises:
            ClientClosed: not started, or closed.
            CometError: the cluster cannot be asked.
        """
        result: set[LetterId] = self._portal.call(self._client.take, run, letters)
        return result

    def end(self) -> None:
        """Say that all that was taken is sent.

        Raises:
            ClientClosed: not started, or closed.
            NetError: another run took over some of it meanwhile, and may have sent it, too.
        """
        self._portal.call(self._client.end)
