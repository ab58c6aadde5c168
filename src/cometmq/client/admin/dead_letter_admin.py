"""Dead letters, as `AsyncAdmin.dead_letters`: their numbers, and replays to their original topics."""

from collections.abc import Sequence

from cometmq.client.admin.dead_letters import DeadLetterCount, DeadLetters
from cometmq.client.admin.noun import AsyncNoun
from cometmq.model.message import StoredMessage


class AsyncDeadLetterAdmin(AsyncNoun):
    """The dead letters of consumer groups."""

    _noun = "dead_letters"

    async def replayed(self, group: str, letters: Sequence[StoredMessage]) -> list[bool]:
        """Return for each dead letter of a group whether the replay ledger records that any program has sent it.

        `replay`, the command `dlq replay`, the dashboard and the Spark job share this ledger.
        """
        from cometmq.client.admin.replay import replayed

        return await replayed(self._live, self._full(group), letters)

    async def replay(
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
        from cometmq.client.admin.replay import Replay, ReplayPlan

        run = Replay(self._live, ReplayPlan(self._full(group)), lambda _: None)
        return await run.these(letters, again=again)

    # Last: in annotations behind it, `list` would mean the method.

    async def list(self) -> list[DeadLetterCount]:
        """Return the number of dead letters of each group that has any, sorted by name; requires an administrator's rights.

        Brokers that do not answer or have left are named by the counts that lack them.
        """
        counts = await DeadLetters(self._live).counts()
        own = {self._full(name): name for name in self._own(each.group for each in counts)}
        return [each._replace(group=own[each.group]) for each in counts if each.group in own]
