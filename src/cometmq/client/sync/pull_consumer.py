"""The blocking `PullConsumer`: made by tools/sync_facade.py from cometmq.client.consumer.pull.pull_consumer; do not edit."""

from collections.abc import Iterable, Iterator

from cometmq.client.consumer.filters import ALL, Filter, Subscriptions
from cometmq.client.consumer.pull.pull_consumer import AsyncPullConsumer
from cometmq.client.results import PullResult, RawPull
from cometmq.client.settings import ConsumerSettings
from cometmq.client.sync.client import BlockingGroupClient
from cometmq.model.message import StoredMessage
from cometmq.model.queue import MessageQueue


class PullConsumer(BlockingGroupClient[AsyncPullConsumer]):
    """A consumer that reads messages on request: by queue and offset, or the next ones of a subscription.

    When it is closed, it commits the received messages and leaves the group.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: Its consumer group, which `committed` and `commit` refer to.
        subscriptions: A filter for each topic, `{"orders": Tag("paid")}`, or a list of topics without filters,
            `["orders"]`; add more with `subscribe`.
        settings: Times and sizes.

    Raises:
        SettingsError: A nameserver address is invalid.
        SubscriptionError: A filter is neither a `Tag` nor an `Sql`.
        RequestError: The name of the group is invalid.
    """

    def __init__(
        self,
        nameservers: str | None = None,
        *,
        group: str = "PYTHON_PULL_CONSUMER",
        subscriptions: Subscriptions | None = None,
        settings: ConsumerSettings | None = None,
    ) -> None:
        super().__init__(
            AsyncPullConsumer(
                nameservers, group=group, subscriptions=subscriptions, settings=settings
            )
        )

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the readable queues of a topic, sorted.

        Raises:
            TopicNotFound: The nameserver has no route of the topic.
            ClientClosed, NetError, BrokerRefused: The nameservers cannot be queried.
        """
        result: list[MessageQueue] = self._portal.call(self._client.queues, topic)
        return result

    def fetch(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        max_count: int = 32,
        wait_ms: int = 0,
        expression: Filter = ALL,
    ) -> PullResult:
        """Pull messages from an offset.

        Args:
            queue: Queue to read.
            offset: First queue offset.
            max_count: Maximum number of messages; a broker returns at most 32 by default.
            wait_ms: How long the broker may wait for a message if there is none, ms.
            expression: Filter, `Tag(...)` or `Sql(...)`.

        Raises:
            SubscriptionError: The expression is neither.
            BrokerRefused: The queue does not exist or may not be read.
            ClientClosed, TopicNotFound, BrokerNotFound, NetError, CodecError: The broker could not be queried.
        """
        result: PullResult = self._portal.call(
            self._client.fetch,
            queue,
            offset,
            max_count=max_count,
            wait_ms=wait_ms,
            expression=expression,
        )
        return result

    def fetch_raw(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        max_count: int = 32,
        max_bytes: int | None = None,
        wait_ms: int = 0,
        expression: Filter = ALL,
    ) -> RawPull:
        """Pull undecoded records from an offset, for callers that decode them; for ranges use `QueueReader`.

        The broker compares only the hashes of tags; compare the tags yourself.

        Args:
            queue: Queue to read.
            offset: First queue offset.
            max_count: Maximum number of messages.
            max_bytes: Maximum size in bytes; None: the broker's limit.
            wait_ms: How long the broker may wait for a message if there is none, ms.
            expression: Filter, `Tag(...)` or `Sql(...)`.

        Raises:
            CometError: Any of the errors of `fetch`.
        """
        result: RawPull = self._portal.call(
            self._client.fetch_raw,
            queue,
            offset,
            max_count=max_count,
            max_bytes=max_bytes,
            wait_ms=wait_ms,
            expression=expression,
        )
        return result

    def subscribe(self, topic: str, expression: Filter = ALL) -> None:
        """Subscribe to a topic; its queues are shared with the group's other members.

        Args:
            topic: A new topic, or a subscribed one whose filter is to be changed.
            expression: Filter, `Tag(...)` or `Sql(...)`.

        Raises:
            SubscriptionError: The expression is neither.
            ClientError: Queues were already assigned with `assign`.
        """
        self._portal.call(self._client.subscribe, topic, expression)

    def unsubscribe(self, topic: str) -> None:
        """End the subscription to a topic; its queues are reassigned to the other members of the group.

        Raises:
            SubscriptionError: The topic is not subscribed.
        """
        self._portal.call(self._client.unsubscribe, topic)

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Receive the messages of exactly these queues, regardless of other consumers.

        Raises:
            ClientError: Topics were already subscribed.
            ClientClosed: The consumer is not running.
        """
        self._portal.call(self._client.assign, queues)

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue receiving a queue at another offset.

        Raises:
            ClientError: The queue is not assigned to this consumer.
            ClientClosed: The consumer is not running.
        """
        self._portal.call(self._client.seek, queue, offset)

    def assignment(self) -> list[MessageQueue]:
        """Return the queues that this consumer currently receives, sorted."""
        result: list[MessageQueue] = self._portal.call(self._client.assignment)
        return result

    def receive(self, max_count: int = 32, *, wait_ms: int = 5000) -> list[StoredMessage]:
        """Return the next messages of the subscribed topics or assigned queues.

        The messages returned by the previous call count as consumed from now on and will be committed (`auto_commit`).

        Args:
            max_count: Maximum number of messages.
            wait_ms: How long to wait for the first message, ms; an empty list is returned if none arrives.

        Raises:
            ClientClosed: The consumer is not running.
        """
        result: list[StoredMessage] = self._portal.call(
            self._client.receive, max_count, wait_ms=wait_ms
        )
        return result

    def __iter__(self) -> Iterator[StoredMessage]:
        """Yield every message of the subscribed topics or assigned queues until the consumer is closed."""
        return self._portal.iterate(self._client.__aiter__)

    def min_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the first message in a queue.

        Raises:
            ClientClosed, TopicNotFound, BrokerNotFound, BrokerRefused, NetError, CodecError: The broker could not be queried.
        """
        result: int = self._portal.call(self._client.min_offset, queue)
        return result

    def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the next message of a queue will get.

        Raises:
            ClientClosed, TopicNotFound, BrokerNotFound, BrokerRefused, NetError, CodecError: The broker could not be queried.
        """
        result: int = self._portal.call(self._client.max_offset, queue)
        return result

    def offset_by_time(
        self, queue: MessageQueue, timestamp_ms: int, *, upper: bool = False
    ) -> int:
        """Return the offset of the first message stored at or after a time.

        Args:
            queue: Queue to search.
            timestamp_ms: The time, ms since 1970.
            upper: Return instead the offset of the last message stored at or before the time (brokers of 5.x).

        Raises:
            ClientClosed, TopicNotFound, BrokerNotFound, BrokerRefused, NetError, CodecError: The broker could not be queried.
        """
        result: int = self._portal.call(
            self._client.offset_by_time, queue, timestamp_ms, upper=upper
        )
        return result

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the committed offset of this group, which is the next one to consume; None if there is none.

        Raises:
            ClientClosed, TopicNotFound, BrokerNotFound, BrokerRefused, NetError, CodecError: The broker could not be queried.
        """
        result: int | None = self._portal.call(self._client.committed, queue)
        return result

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """Commit the next offset that this group will consume.

        Raises:
            ClientClosed, TopicNotFound, BrokerNotFound, BrokerRefused, NetError, CodecError: It may not be stored.
        """
        self._portal.call(self._client.commit, queue, offset)
