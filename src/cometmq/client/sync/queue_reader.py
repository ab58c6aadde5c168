"""The blocking `QueueReader`: made by tools/sync_facade.py from cometmq.client.consumer.pull.queue_reader; do not edit."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cometmq.client.consumer.filters import ALL, Filter
from cometmq.client.consumer.pull.queue_reader import AsyncQueueReader
from cometmq.client.consumer.pull.read_from import ReadFrom
from cometmq.client.consumer.settings import PullConsumerSettings
from cometmq.client.results import IndexedMessages, RawPull, TopicQueues
from cometmq.client.sync.client import BlockingGroupClient
from cometmq.codec.bodies.missing_brokers import MissingBroker
from cometmq.model.errors import CometError, TopicNotFound
from cometmq.model.queue import MessageQueue


class QueueReader(BlockingGroupClient[AsyncQueueReader]):
    """A reader of ranges of queues, and of the positions of many queues at once, for a group that it never joins.

    It connects at the first call. A range that is being read when it is closed usually ends with an error.

    Queries about many queues return a mapping with a result or an error for each queue, so that an unreachable broker
    does not affect queues of others. Topic names are without the namespace; records contain it.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: The consumer group that brokers see; `committed_offsets` and `commit` refer to it.
        settings: Namespace and times.

    Raises:
        SettingsError: A nameserver address, or the credentials or TLS settings (also of the environment), are unusable.
        RequestError: The name of the group is invalid.
    """

    def __init__(
        self,
        nameservers: str | None = None,
        *,
        group: str = "PYTHON_QUEUE_READER",
        settings: PullConsumerSettings | None = None,
    ) -> None:
        super().__init__(AsyncQueueReader(nameservers, group=group, settings=settings))

    def topics(self) -> list[str]:
        """Return the names of all topics that a nameserver lists for the namespace, including system topics.

        Raises ClientClosed, NetError if no nameserver answers, and BrokerRefused or CodecError if the first one that
        answers refuses or its answer is invalid.
        """
        return self._portal.call(self._client.topics)

    def brokers(self) -> list[str]:
        """Return the names of the brokers that are registered at a nameserver, sorted.

        Raises ClientClosed, NetError if no nameserver answers, and BrokerRefused or CodecError if the first one that
        answers refuses or its answer is invalid.
        """
        return self._portal.call(self._client.brokers)

    def missing_brokers(self) -> list[MissingBroker]:
        """Return the brokers that a CometMQ nameserver remembers but that are offline; empty if a nameserver refuses.

        RocketMQ's nameserver refuses. Raises ClientClosed, NetError if none answers, and CodecError if the answer is malformed.
        """
        return self._portal.call(self._client.missing_brokers)

    def queues(self, topics: Iterable[str]) -> dict[str, TopicQueues | TopicNotFound]:
        """Return the current queues of each topic, or TopicNotFound for a topic without a route.

        Raises ClientClosed, NetError if no nameserver answers, and BrokerRefused or CodecError if the first one that
        answers refuses or its answer is invalid.
        """
        return self._portal.call(self._client.queues, topics)

    def min_offsets(
        self, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int | CometError]:
        """Return a dict of queues to the offset of their first message (0 if there never was one), or to an error."""
        return self._portal.call(self._client.min_offsets, queues)

    def max_offsets(
        self, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int | CometError]:
        """Return a dict of queues to the offset that their next message will get, or to an error."""
        return self._portal.call(self._client.max_offsets, queues)

    def offsets_by_time(
        self, times_ms: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, int | CometError]:
        """Return a dict of queues to the offset of the first message stored at or after a time, or to an error.

        `times_ms` are the times by queue, ms since 1970. Without such a message: usually the queue's end. Brokers of 4.x
        return the offset nearest to the time.
        """
        return self._portal.call(self._client.offsets_by_time, times_ms)

    def committed_offsets(
        self, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int | CometError | None]:
        """Return a dict of queues to the group's committed offset, None without one, or an error.

        Brokers report 0 instead of None for a queue whose first message counts as in memory.
        """
        return self._portal.call(self._client.committed_offsets, queues)

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit offsets of the group; if some fail, still try the other brokers, then raise the first CometError."""
        self._portal.call(self._client.commit, offsets)

    def indexed(self, topic: str, key: str, *, is_id: bool = False) -> IndexedMessages | None:
        """Return the places that the brokers' indexes have for a key; None if there are none or a broker returned 32 or more.

        Args:
            topic: Topic of the messages.
            key: A key of the messages, or a message id.
            is_id: Whether `key` is a message id.

        Raises:
            TopicNotFound: The nameserver has no route of the topic.
            BrokerNotFound: A broker of the topic has no master now; slaves are not queried.
            ClientClosed, NetError, BrokerRefused, CodecError: A broker or nameserver gives no valid answer.
        """
        return self._portal.call(self._client.indexed, topic, key, is_id=is_id)

    def read(
        self,
        queue: MessageQueue,
        start: int,
        end: int,
        *,
        max_count: int = 1024,
        depth: int = 4,
        expression: Filter = ALL,
        read_from: ReadFrom = ReadFrom.SUGGESTED,
    ) -> Iterator[RawPull]:
        """Yield pull answers with undecoded records for a range, several in flight; with a filter they may overlap or pass `end`.

        Reading ends at `end`, or at the end of the queue. If messages are deleted, usually an answer without a body
        contains the offset of the next ones (the larger of `next_offset` and `min_offset`), and reading continues
        there. With a filter, skip records whose offset is not above the last one seen, or is `end` or more. If a
        replica has no messages or, without a filter, not the next one, its master is asked. The blocking reader
        reads some MiB ahead.

        Args:
            queue: Queue to read.
            start: First queue offset.
            end: Queue offset after the last message to read.
            max_count: Maximum number of messages per pull; brokers have their own limit (Java: 32).
            depth: Maximum number of pulls in flight.
            expression: Filter, `Tag(...)` or `Sql(...)`; brokers compare only the hashes of tags.
            read_from: Member of the broker group to read from first, if there are replicas.

        Raises:
            ClientClosed, SubscriptionError: The reader is not running, or the filter is neither a `Tag` nor an `Sql`.
            SettingsError: `max_count` or `depth` is less than 1.
            TopicNotFound, BrokerNotFound, NetError, CodecError: There is no route, or no valid answer.
            BrokerRefused: A broker refuses, as for a queue that does not exist or may not be read, or the nameserver.
        """
        return self._portal.iterate_ahead(
            self._client.read,
            queue,
            start,
            end,
            max_count=max_count,
            depth=depth,
            expression=expression,
            read_from=read_from,
        )

    def read_first(
        self,
        ranges: Sequence[tuple[MessageQueue, int, int]],
        *,
        max_count: int = 1024,
        expression: Filter = ALL,
        read_from: ReadFrom = ReadFrom.SUGGESTED,
    ) -> list[RawPull | CometError | None]:
        """Return the first answer of `read` for each range, or its error; many ranges are read concurrently.

        `ranges` has queue, start and end of each range; the result for an empty one is None. The other arguments are as
        in `read`.
        """
        return self._portal.call(
            self._client.read_first,
            ranges,
            max_count=max_count,
            expression=expression,
            read_from=read_from,
        )
