"""The blocking `ReplayClaims`: made by tools/sync_facade.py from cometmq.client.admin.replay_claims; do not edit."""

from collections.abc import Sequence

from cometmq.client.admin.replay import ReplayCandidate
from cometmq.client.admin.replay_claims import AsyncReplayClaims
from cometmq.client.admin.replay_ledger import LetterId
from cometmq.client.settings import ClientSettings
from cometmq.client.sync.client import BlockingGroupClient


class ReplayClaims(BlockingGroupClient[AsyncReplayClaims]):
    """Claims of a run on dead letters, from before its sends until after them, so that other runs do not send the same.

    The command line and the dashboard use the same ledger. The client tries to renew claims until `end` or the close.

    Args:
        nameservers: "ip:port;ip:port" of the cluster with the dead letters; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: Consumer group of the dead letters.
        settings: Times; with a namespace, `group` is without it.

    Raises:
        SettingsError: A nameserver address, or a setting for credentials or TLS in the environment, is invalid.
        RequestError: The name of the group is invalid.
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
        """Claim dead letters for this run, and return the ids of those that no other run has sent.

        Those that were recorded as sent under the same `run` are returned again. Waits while another run holds one.

        Args:
            run: Id of the run: unique, and the same when the same dead letters are claimed again.
            letters: Dead letters to send now.

        Raises:
            ClientClosed: The client is not running.
            CometError: The cluster cannot be queried, or the ledger not written.
        """
        return self._portal.call(self._client.take, run, letters)

    def end(self) -> None:
        """Record that the claimed dead letters are sent; call it after their sends.

        Raises:
            ClientClosed: The client is not running.
            CometError: The ledger cannot be read or written; the claims are kept.
            NetError: As before; or another run took over some of them meanwhile, and these may be sent twice.
        """
        self._portal.call(self._client.end)
