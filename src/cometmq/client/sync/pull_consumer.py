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
    """A consumer that reads messages on demand: by queue and offset, or the next of a subscription.

    When it is closed it commits what was received, and leaves the group.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: its consumer group, whose offsets `committed` and `commit` mean.
        subscriptions: a filter for each topic, `{"orders": Tag("paid")}`, or topics, `["orders"]`, of
            which all messages are wanted; more by `subscribe`.
        settings: times and sizes.

    Raises:
        SettingsError: a nameserver address cannot be read.
        SubscriptionError: a filter is no filter.
        RequestError: the group's name is illegal.
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
        """The queues of a topic that can be read, sorted.

        Raises:
            TopicNotFound: the nameserver knows no route of it.
            ClientClosed, NetError, BrokerRefused: the nameservers cannot be asked.
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
        """Pull messages from an offset on.

        Args:
            queue: where.
            offset: first queue offset wanted.
            max_count: messages at most; a broker gives at most 32 by default.
            wait_ms: how long the broker may wait for a message when there is none.
            expression: which of them, `Tag(...)` or `Sql(...)`.

        Raises:
            SubscriptionError: the expression is neither.
            BrokerRefused: no permission, or no such queue.
            ClientClosed, TopicNotFound, BrokerNotFound, NetError, CodecError: no answer.
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
        """Pull records from an offset on as they came, for those who decode them themselves; ranges: `QueueReader`.

        The broker filters by the tags' hashes only; compare tags yourself.

        Args:
            queue: where.
            offset: first queue offset wanted.
            max_count: messages at most.
            max_bytes: bytes at most; None: as the broker likes.
            wait_ms: how long the broker may wait for a message when there is none.
            expression: which of them.

        Raises:
            CometError: of one of the kinds that `fetch` names.
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
            topic: one more, or one whose filter is to be another.
            expression: which of its messages, `Tag(...)` or `Sql(...)`.

        Raises:
            SubscriptionError: the expression is neither.
            ClientError: queues were assigned already.
        """
        self._portal.call(self._client.subscribe, topic, expression)

    def unsubscribe(self, topic: str) -> None:
        """End the subscription to a topic; its queues go to the other members of the group.

        Raises:
            SubscriptionError: it is not subscribed.
        """
        self._portal.call(self._client.unsubscribe, topic)

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Receive exactly the messages of these queues, whoever else does.

        Raises:
            ClientError: topics were subscribed already.
            ClientClosed: not started, or closed.
        """
        self._portal.call(self._client.assign, queues)

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on receiving a queue at another offset.

        Raises:
            ClientError: the queue is not this consumer's now.
            ClientClosed: not started, or closed.
        """
        self._portal.call(self._client.seek, queue, offset)

    def assignment(self) -> list[MessageQueue]:
        """The queues that are received now, sorted: assigned, or this member's share."""
        result: list[MessageQueue] = self._portal.call(self._client.assignment)
        return result

    def receive(self, max_count: int = 32, *, wait_ms: int = 5000) -> list[StoredMessage]:
        """The next messages of what was subscribed or assigned.

        What the call before gave counts as consumed from now on and will be committed
        (`auto_commit`).

        Args:
            max_count: messages at most.
            wait_ms: how long to wait for the first one.

        Raises:
            ClientClosed: not started, or closed.
        """
        result: list[StoredMessage] = self._portal.call(
            self._client.receive, max_count, wait_ms=wait_ms
        )
        return result

    def __iter__(self) -> Iterator[StoredMessage]:
        """Every message of what was subscribed or assigned, until the consumer is closed."""
        return self._portal.iterate(self._client.__aiter__)

    def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the queue's first message.

        Raises:
            ClientClosed, TopicNotFound, BrokerNotFound, BrokerRefused, NetError, CodecError: no
                answer.
        """
        result: int = self._portal.call(self._client.min_offset, queue)
        return result

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the queue's next message will get.

        Raises:
            ClientClosed, TopicNotFound, BrokerNotFound, BrokerRefused, NetError, CodecError: no
                answer.
        """
        result: int = self._portal.call(self._client.max_offset, queue)
        return result

    def offset_by_time(
        self, queue: MessageQueue, timestamp_ms: int, *, upper: bool = False
    ) -> int:
        """The offset of the first message stored at a time (ms since 1970) or later.

        Args:
            queue: where.
            timestamp_ms: the time.
            upper: that of the last message stored then or earlier instead (brokers of 5.x).

        Raises:
            ClientClosed, TopicNotFound, BrokerNotFound, BrokerRefused, NetError, CodecError: no
                answer.
        """
        result: int = self._portal.call(
            self._client.offset_by_time, queue, timestamp_ms, upper=upper
        )
        return result

    def committed(self, queue: MessageQueue) -> int | None:
        """The next offset that this group will consume; None when it never committed one.

        Raises:
            ClientClosed, TopicNotFound, BrokerNotFound, BrokerRefused, NetError, CodecError: no
                answer.
        """
        result: int | None = self._portal.call(self._client.committed, queue)
        return result

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store the next offset that this group will consume.

        Raises:
            ClientClosed, TopicNotFound, BrokerNotFound, BrokerRefused, NetError, CodecError: it
                may not be stored.
        """
        self._portal.call(self._client.commit, queue, offset)
