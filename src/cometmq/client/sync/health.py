"""The blocking `HealthAdmin`: made by tools/sync_facade.py from cometmq.client.admin.health; do not edit."""

from cometmq.client.admin.facts import LAG_DEFAULT, WAIT_MS_DEFAULT, Symptom
from cometmq.client.admin.health import AsyncHealthAdmin
from cometmq.client.sync.client import BlockingNoun


class HealthAdmin(BlockingNoun[AsyncHealthAdmin]):
    """The method that checks the health of a whole cluster; names are as brokers know them, with any namespace."""

    def check(
        self, *, lag_max: int = LAG_DEFAULT, wait_ms: int = WAIT_MS_DEFAULT
    ) -> list[Symptom]:
        """Check the cluster for problems (`Symptom.check`) and return them, the worst first, with advice.

        It takes 2 s longer if a queue has no reader or a member seems stuck, and 2 s if a slave seems late.

        Args:
            lag_max: Number of messages by which a group with members may lag.
            wait_ms: Time that a message may wait for a member or for its acknowledgement, and a half message for the end
                of its transaction, ms.
        """
        return self._portal.call(self._client.check, lag_max=lag_max, wait_ms=wait_ms)
