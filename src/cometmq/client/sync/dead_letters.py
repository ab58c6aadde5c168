"""The blocking `DeadLetterAdmin`: made by tools/sync_facade.py from cometmq.client.admin.dead_letters; do not edit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from cometmq.client.admin.dead_letters import ALL_LETTERS, AsyncDeadLetterAdmin
from cometmq.client.admin.letters import (
    DeadLetterCount,
    DeadLetterFilter,
    DeadLetterStats,
)
from cometmq.client.admin.replay import ReplayResult
from cometmq.client.sync.client import BlockingNoun
from cometmq.model.message import StoredMessage


class DeadLetterAdmin(BlockingNoun[AsyncDeadLetterAdmin]):
    """The methods that list, read, replay and delete dead letters of consumer groups."""

    def replayed(self, group: str, letters: Sequence[StoredMessage]) -> list[bool]:
        """Return for each dead letter of a group whether the replay ledger records that any program has sent it.

        `replay`, the command `dlq replay`, the dashboard and the Spark job share this ledger.
        """
        return self._portal.call(self._client.replayed, group, letters)

    def replay(
        self,
        group: str,
        letters: Sequence[StoredMessage],
        *,
        again: bool = False,
        only_group: bool = False,
    ) -> list[str]:
        """Send dead letters to their original topics unless they were replayed; return for each "" or a reason.

        Despite a reason, a copy may exist: of an earlier replay, or if a send ended without an answer.

        Args:
            group: The consumer group.
            letters: Dead letters, as read from the group's dead-letter topic.
            again: Also send those that were replayed before.
            only_group: Send them to the group's retry topic instead, so that no other group gets them.

        Raises:
            RequestError: The name of the group is too long for the topic of the ledger.
            CometError: The ledger cannot be read or written.
        """
        return self._portal.call(
            self._client.replay, group, letters, again=again, only_group=only_group
        )

    def replay_all(
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
        return self._portal.call(
            self._client.replay_all,
            group,
            wanted,
            to_topic=to_topic,
            rate=rate,
            is_dry=is_dry,
            on_wait=on_wait,
        )

    def read(
        self,
        group: str,
        wanted: DeadLetterFilter = ALL_LETTERS,
        *,
        last: int | None = None,
        bytes_max: int | None = None,
        on_unreadable: Callable[[str], object] | None = None,
    ) -> Iterator[StoredMessage]:
        """Yield the selected dead letters that a group has when reading starts, queue by queue, by rising offset.

        Args:
            group: The consumer group.
            wanted: Selection of dead letters.
            last: Maximum number of the latest dead letters of each queue to search; None: all.
            bytes_max: Reading ends before the next dead letter when those searched have bodies of that many bytes, after
                decompression; None: all are read.
            on_unreadable: Called with a sentence about each dead letter whose body or properties cannot be decoded; it
                is left out; and about an end by `bytes_max`; None: nothing.

        Raises:
            TopicNotFound: There is no dead-letter topic of the group.
            ExpressionError: A letter shows that the filter is invalid.
        """
        return self._portal.iterate(
            self._client.read,
            group,
            wanted,
            last=last,
            bytes_max=bytes_max,
            on_unreadable=on_unreadable,
        )

    def stats(
        self,
        group: str,
        wanted: DeadLetterFilter = ALL_LETTERS,
        *,
        last: int | None = None,
        bytes_max: int | None = None,
        on_unreadable: Callable[[str], object] | None = None,
    ) -> list[DeadLetterStats]:
        """Count the selected dead letters of a group by original topic and number of redeliveries, largest count first.

        The arguments and errors are those of `read`.
        """
        return self._portal.call(
            self._client.stats,
            group,
            wanted,
            last=last,
            bytes_max=bytes_max,
            on_unreadable=on_unreadable,
        )

    def delete(self, group: str) -> None:
        """Delete all dead letters of a group, and the records of their replays.

        Raises TopicNotFound if the group has neither a dead-letter topic nor a ledger of replays.
        """
        self._portal.call(self._client.delete, group)

    def waiting(self) -> list[DeadLetterCount]:
        """Return the number of dead letters that no program has sent again, for each group that has any, sorted by name.

        Of a group with more than 10,000 dead letters replayed ones count, too: the ledger of its replays is not read.
        Groups whose dead letters cannot be read are returned, too, with the reason in `uncounted`.
        """
        return self._portal.call(self._client.waiting)

    def list(self) -> list[DeadLetterCount]:
        """Return a count for each group that has or may have dead letters, by name; requires an administrator's rights.

        Brokers that do not answer or have left are named by the counts that lack them. Groups whose dead letters cannot be
        read are returned, too, with the reason in `uncounted`.
        """
        return self._portal.call(self._client.list)
