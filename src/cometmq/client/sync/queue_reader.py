"""The blocking `QueueReader`: made by tools/sync_facade.py from cometmq.client.consumer.pull.queue_reader; do not edit."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cometmq.client.consumer.filters import ALL, Filter
from cometmq.client.consumer.pull.members import ReadFrom
from cometmq.client.consumer.pull.queue_reader import AsyncQueueReader
from cometmq.client.results import IndexedMessages, RawPull, TopicQueues
from cometmq.client.settings import ConsumerSettings
from cometmq.client.sync.client import BlockingGroupClient
from cometmq.codec.bodies.missing_brokers import MissingBroker
from cometmq.model.errors import CometError, TopicNotFound
from cometmq.model.queue import MessageQueue


class QueueReader(BlockingGroupClient[AsyncQueueReader]):
    """Reads ranges of queues, and asks about many queues at once, for a group that it never joins.

    Nothing is connected before the first call. A range that is being read when it is closed ends with an error.

    What is said of many queues is a mapping with the typed error of a queue in its place: a broker that is away takes
    nothing from the queues of others. Topics have their names without the namespace; records have it.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: the consumer group that brokers see, whose offsets `committed_offsets` and `commit` mean.
        settings: namespace and times.

    Raises:
        SettingsError: a nameserver address cannot be read.
        RequestError: the group's name is illegal.
    """

    def __init__(
        self,
        nameservers: str | None = None,
        *,
        group: str = "PYTHON_QUEUE_READER",
        settings: ConsumerSettings | None = None,
    ) -> None:
        super().__init__(AsyncQueueReader(nameservers, group=group, settings=settings))

    def topics(self) -> list[str]:
        """Names of all topics of the namespace, the system's among them.

        Raises:
            ClientClosed, NetError, BrokerRefused, CodecError: the nameservers cannot be asked.
        """
        result: list[str] = self._portal.call(self._client.topics)
        return result

    def brokers(self) -> list[str]:
        """Names of the brokers that are registered now, sorted; raises what `topics` raises."""
        result: list[str] = self._portal.call(self._client.brokers)
        return result

    def missing_brokers(self) -> list[MissingBroker]:
        """Brokers that the nameserver remembers and that are away; none where it is RocketMQ's own.

        Raises:
            ClientClosed, NetError, CodecError: the nameservers cannot be asked.
        """
        result: list[MissingBroker] = self._portal.call(self._client.missing_brokers)
        return result

    def queues(self, topics: Iterable[str]) -> dict[str, TopicQueues | TopicNotFound]:
        """The queues of each topic, as the nameserver has them now, or the error that it has none.

        Raises:
            ClientClosed, NetError, BrokerRefused, CodecError: the nameservers cannot be asked.
        """
        result: dict[str, TopicQueues | TopicNotFound] = self._portal.call(
            self._client.queues, topics
        )
        return result

    def min_offsets(
        self, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int | CometError]:
        """The first offset that each queue still holds, or the error in its place."""
        result: dict[MessageQueue, int | CometError] = self._portal.call(
            self._client.min_offsets, queues
        )
        return result

    def max_offsets(
        self, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int | CometError]:
        """The offset that the next message of each queue will get, or the error in its place."""
        result: dict[MessageQueue, int | CometError] = self._portal.call(
            self._client.max_offsets, queues
        )
        return result

    def offsets_by_time(
        self, times_ms: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, int | CometError]:
        """The first message of each queue stored at its time (ms since 1970) or later, its end for none, or the error."""
        result: dict[MessageQueue, int | CometError] = self._portal.call(
            self._client.offsets_by_time, times_ms
        )
        return result

    def committed_offsets(
        self, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int | CometError | None]:
        """The offset that the group has committed in each queue, None for none, or the error in its place."""
        result: dict[MessageQueue, int | CometError | None] = self._portal.call(
            self._client.committed_offsets, queues
        )
        return result

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Store where the group goes on, for all queues whose brokers can be reached.

        Raises:
            CometError: what the first broker said that did not store it.
        """
        self._portal.call(self._client.commit, offsets)

    def indexed(self, topic: str, key: str, *, is_id: bool = False) -> IndexedMessages | None:
        """The places that the brokers' indexes have under a key; None: none, or more than they tell at once.

        Args:
            topic: of the messages.
            key: one of their keys, or a message's id.
            is_id: whether it is the id.

        Raises:
            TopicNotFound: the nameserver knows none.
            ClientClosed, NetError, BrokerRefused, CodecError: a broker of the topic cannot be asked.
        """
        result: IndexedMessages | None = self._portal.call(
            self._client.indexed, topic, key, is_id=is_id
        )
        return result

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
        """Yield the records of a range in order, with several pulls under way.

        It ends at `end` or where the queue ends, whichever comes first. Where messages are gone an answer without a body says
        where the next ones are (`next_offset`, or `min_offset` where that is larger), and those follow. What a replica lacks is
        asked of its master before it counts as gone. The blocking reader reads some MiB ahead.

        Args:
            queue: where.
            start: first queue offset.
            end: queue offset behind the last one wanted.
            max_count: messages a pull asks for; brokers bound it themselves (Java: 32).
            depth: pulls under way at most.
            expression: which of them, `Tag(...)` or `Sql(...)`; brokers compare the hashes of tags only.
            read_from: who gives them where the broker has replicas.

        Raises:
            ClientClosed: not started, or closed.
            TopicNotFound, BrokerNotFound, NetError, CodecError: no answer.
            BrokerRefused: no permission, or no such queue.
        """
        result: Iterator[RawPull] = self._portal.iterate_ahead(
            self._client.read,
            queue,
            start,
            end,
            max_count=max_count,
            depth=depth,
            expression=expression,
            read_from=read_from,
        )
        return result

    def read_first(
        self,
        ranges: Sequence[tuple[MessageQueue, int, int]],
        *,
        max_count: int = 1024,
        expression: Filter = ALL,
        read_from: ReadFrom = ReadFrom.SUGGESTED,
    ) -> list[RawPull | CometError | None]:
        """The first answer of `read` for each range, all asked side by side, or the error in its place.

        Args:
            ranges: queue, start and end; of an empty one there is none.
            max_count: as in `read`.
            expression: as in `read`.
            read_from: as in `read`.
        """
        result: list[RawPull | CometError | None] = self._portal.call(
            self._client.read_first,
            ranges,
            max_count=max_count,
            expression=expression,
            read_from=read_from,
        )
        return result
