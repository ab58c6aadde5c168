"""The blocking `OffsetAdmin`: made by tools/sync_facade.py from cometmq.client.admin.offsets; do not edit."""

from collections.abc import Mapping

from cometmq.client.admin.offsets import AsyncOffsetAdmin, OffsetMove
from cometmq.client.sync.client import BlockingNoun
from cometmq.codec.bodies.stats import QueueProgress
from cometmq.model.queue import MessageQueue


class OffsetAdmin(BlockingNoun[AsyncOffsetAdmin]):
    """The methods that show and move the committed offsets of consumer groups."""

    def committed(self, group: str, topic: str) -> dict[MessageQueue, int | None]:
        """Return a group's committed offset in each queue of a topic; None in a queue without one.

        Brokers report 0 instead of None for a queue whose first message counts as in memory.
        Raises TopicNotFound if the nameserver has no route of the topic.
        """
        return self._portal.call(self._client.committed, group, topic)

    def progress(
        self, group: str, topic: str | None = None
    ) -> dict[MessageQueue, QueueProgress]:
        """Return the offsets, lag and times of a group by queue, as brokers report them, of a topic or of all its topics.

        A broker group without a master is answered for by its slave of the lowest id. Raises BrokerNotFound without any
        broker, or if the nameserver remembers a broker that left and may have more queues; `Admin.groups.show` then returns
        what is known. Queues of brokers that RocketMQ's nameserver has forgotten are missing in the result.
        """
        return self._portal.call(self._client.progress, group, topic)

    def lag(self, group: str, topic: str | None = None) -> dict[MessageQueue, int]:
        """Return a group's number of unconsumed messages by queue, as in `progress`, also for queues without an offset.

        Args:
            group: The consumer group.
            topic: Topic of the queues; None: all topics in which it has offsets, or (not with Java brokers) that its
                members subscribe to.

        Raises:
            GroupNotFound: No broker knows the group; a misspelt group thus does not seem to be without a backlog.
            BrokerNotFound: No broker is registered, or one that may have more queues has left.
        """
        return self._portal.call(self._client.lag, group, topic)

    def at(self, topic: str, timestamp_ms: int | None) -> dict[MessageQueue, int]:
        """Return the offsets to which `reset` would move a group, by queue, without moving it.

        Raises TopicNotFound if the nameserver has no route of the topic.
        """
        return self._portal.call(self._client.at, topic, timestamp_ms)

    def moves(self, group: str, offsets: Mapping[MessageQueue, int]) -> list[OffsetMove]:
        """Return the moves that `set` would make to these offsets, sorted by queue, without making them.

        Raises TopicNotFound if the nameserver has no route of a topic.
        """
        return self._portal.call(self._client.moves, group, offsets)

    def reset(
        self, group: str, topic: str, timestamp_ms: int | None
    ) -> dict[MessageQueue, int]:
        """Move a group in all queues of a topic to a time, where its members continue; return the new offset by queue.

        Args:
            group: The consumer group.
            topic: Topic of the queues.
            timestamp_ms: Go on at the first message stored at or after this time, ms since 1970; 0: the first; None:
                the end.

        Raises:
            TopicNotFound: The nameserver has no route of the topic.
            BrokerNotFound: A broker of the topic has no master at the moment.
            BrokerRefused: A broker refuses, for example because it does not know the group.
        """
        return self._portal.call(self._client.reset, group, topic, timestamp_ms)

    def set(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Move a group to given offsets (the next to consume, by queue); connected members continue there.

        Raises:
            TopicNotFound: The nameserver has no route of a topic.
            RequestError: A queue or offset does not exist, or a broker cannot move members; others may have moved theirs.
        """
        self._portal.call(self._client.set, group, offsets)
