"""Dead letters, as `AsyncAdmin.dead_letters`: their numbers, and replays to their original topics."""

from collections.abc import AsyncIterator, Callable, Sequence

from cometmq.client.admin.dead_letters import DeadLetterCount, DeadLetterFilter, DeadLetters
from cometmq.client.admin.noun import AsyncNoun
from cometmq.client.admin.replay import Replay, ReplayPlan, ReplayResult, replayed
from cometmq.client.admin.topics import AsyncTopicAdmin
from cometmq.model.message import StoredMessage
from cometmq.model.names import REPLAY_LEDGER_PREFIX, dead_letter_topic

ALL_LETTERS = DeadLetterFilter()


class AsyncDeadLetterAdmin(AsyncNoun):
    """The dead letters of consumer groups."""

    _noun = "dead_letters"

    async def replayed(self, group: str, letters: Sequence[StoredMessage]) -> list[bool]:
        """Return for each dead letter of a group whether the replay ledger records that any program has sent it.

        `replay`, the command `dlq replay`, the dashboard and the Spark job share this ledger.
        """
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
        run = Replay(self._live, ReplayPlan(self._full(group)), _ignore)
        return await run.these(letters, again=again)

    async def replay_all(
        self,
        group: str,
        wanted: DeadLetterFilter = ALL_LETTERS,
        *,
        to_topic: str | None = None,
        rate: float | None = None,
        is_dry: bool = False,
        on_wait: Callable[[str], None] | None = None,
    ) -> ReplayResult:
        """Send the selected dead letters of a group that were not replayed before, also by other runs; return the counts.

        Args:
            group: The consumer group.
            wanted: Selection of dead letters.
            to_topic: Target topic; None: the original topic of each dead letter.
            rate: Maximum number of messages per second; None: no limit.
            is_dry: Whether only to count.
            on_wait: Called with a text when it first waits for another run; None: nothing.

        Raises:
            TopicNotFound: There is no dead-letter topic of the group.
            ExpressionError: A dead letter shows that the filter is invalid.
            RequestError: The name of the group is too long for the topic of its replay ledger.
            CometError: The cluster cannot be queried, or the ledger not written; another run can continue.
        """
        to_topic = to_topic and self._full(to_topic)
        plan = ReplayPlan(self._full(group), wanted, to_topic, rate, is_dry)
        return await Replay(self._live, plan, on_wait or _ignore).run()

    async def read(
        self,
        group: str,
        wanted: DeadLetterFilter = ALL_LETTERS,
        *,
        last: int | None = None,
        on_unreadable: Callable[[str], object] | None = None,
    ) -> AsyncIterator[StoredMessage]:
        """Yield the selected dead letters that a group has when reading starts, queue by queue, by rising offset.

        Args:
            group: The consumer group.
            wanted: Selection of dead letters.
            last: Maximum number of the latest dead letters of each queue to search; None: all.
            on_unreadable: Called with a sentence about each dead letter whose body or properties cannot be decoded; it
                is left out; None: nothing.

        Raises:
            TopicNotFound: There is no dead-letter topic of the group.
            ExpressionError: A letter shows that the filter is invalid.
        """
        letters = DeadLetters(self._live).read(
            self._full(group), wanted, on_unreadable=on_unreadable or _ignore, last=last
        )
        async for letter in letters:
            yield letter

    async def delete(self, group: str) -> None:
        """Delete all dead letters of a group, and the records of their replays; raise TopicNotFound if there are none."""
        full = self._full(group)
        topics = AsyncTopicAdmin(self._admin)
        known = await self._live.nameserver_api.topics()
        own = [
            each
            for each in (dead_letter_topic(full), REPLAY_LEDGER_PREFIX + full)
            if each in known
        ]
        if not own:
            await DeadLetters(self._live).check(full)
        for topic in own:
            await topics.delete(topic)

    # Last: in annotations behind it, `list` would mean the method.

    async def list(self) -> list[DeadLetterCount]:
        """Return the number of dead letters of each group that has any, sorted by name; requires an administrator's rights.

        Brokers that do not answer or have left are named by the counts that lack them.
        """
        counts = await DeadLetters(self._live).counts()
        own = {self._full(name): name for name in self._own(each.group for each in counts)}
        return [each._replace(group=own[each.group]) for each in counts if each.group in own]


def _ignore(_text: str) -> None:
    """Do nothing with a text that no caller wants."""
