"""The blocking `DeadLetterAdmin`: made by tools/sync_facade.py from cometmq.client.admin.dead_letter_admin; do not edit."""

from collections.abc import Sequence

from cometmq.client.admin.dead_letter_admin import AsyncDeadLetterAdmin
from cometmq.client.admin.dead_letters import DeadLetterCount
from cometmq.client.sync.client import BlockingNoun
from cometmq.model.message import StoredMessage


class DeadLetterAdmin(BlockingNoun[AsyncDeadLetterAdmin]):
    """The dead letters of consumer groups."""

    def replayed(self, group: str, letters: Sequence[StoredMessage]) -> list[bool]:
        """Return for each dead letter of a group whether the replay ledger records that any program has sent it.

        `replay`, the command `dlq replay`, the dashboard and the Spark job share this ledger.
        """
        result: list[bool] = self._portal.call(self._client.replayed, group, letters)
        return result

    def replay(
        self, group: str, letters: Sequence[StoredMessage], *, again: bool = False
    ) -> list[str]:
        """Send dead letters to their original topics unless they were replayed; return for each "" or a reason.

        Despite a reason, a copy may exist: of an earlier replay, or if a send ended without an answer.

        Args:
            group: The consumer group.
            letters: Dead letters, as read from the group's dead-letter topic.
            again: Also send those that were replayed before.

        Raises:
            RequestError: The name of the group is too long for the topic of the ledger.
            CometError: The ledger cannot be read or written.
        """
        result: list[str] = self._portal.call(self._client.replay, group, letters, again=again)
        return result

    def list(self) -> list[DeadLetterCount]:
        """Return the number of dead letters of each group that has any, sorted by name; requires an administrator's rights.

        Brokers that do not answer or have left are named by the counts that lack them.
        """
        result: list[DeadLetterCount] = self._portal.call(self._client.list)
        return result
