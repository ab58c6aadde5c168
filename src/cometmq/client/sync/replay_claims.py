"""The blocking `ReplayClaims`: made by tools/sync_facade.py from cometmq.client.admin.replay_claims; do not edit."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from cometmq.client.admin.replay import ReplayCandidate
from cometmq.client.admin.replay_claims import AsyncReplayClaims
from cometmq.client.admin.replay_ledger import LetterId
from cometmq.client.settings import ClientSettings
from cometmq.client.sync.portal import portal


class ReplayClaims:
    """Claims of dead letters, each taken before they are sent again and ended when they are.

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
        self._portal = portal()
        self._client = AsyncReplayClaims(nameservers, group=group, settings=settings)

    def __repr__(self) -> str:
        """The group, client id and nameservers."""
        return repr(self._client).replace("Async", "", 1)

    def start(self) -> None:
        """Find the ledger, or make it.

        Raises:
            CometError: the cluster cannot be asked.
        """
        self._portal = self._portal.begin(self._client, self._client.start)

    def close(self) -> None:
        """Renew nothing any more, and close the connections."""
        self._portal.end(self._client.close)

    def __enter__(self) -> Self:
        """Find the ledger, or make it."""
        self._portal = self._portal.begin(self._client, self._client.__aenter__)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Renew nothing any more, and close the connections."""
        self._portal.end(self._client.__aexit__, _kind, _error, _trace)

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
