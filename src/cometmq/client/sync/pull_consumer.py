"""The blocking `PullConsumer`: made by tools/sync_facade.py from cometmq.client.consumer.pull.pull_consumer; do not edit."""

from collections.abc import Iterable, Iterator

from cometmq.client.consumer.filters import ALL, Filter, Subscriptions
from cometmq.client.consumer.pull.pull_consumer import AsyncPullConsumer
from cometmq.client.consumer.settings import PullConsumerSettings
from cometmq.client.results import PullResult, RawPull
from cometmq.client.sync.client import BlockingGroupClient
from cometmq.model.message import StoredMessage
from cometmq.model.queue import MessageQueue


class PullConsumer(BlockingGroupClient[AsyncPullConsumer]):
    """A consumer that reads messages on request: by queue and offset, or the next ones of its topics or queues.

    When it is closed, it commits the messages that `receive` returned (with `auto_commit`), except those returned last
    if its `with` block ended with an error, and leaves the group.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: Its consumer group, which `committed` and `commit` refer to.
        subscriptions: A filter for each topic, `{"orders": Tag("paid")}`, or topics without filters, `["orders"]`.
        settings: Times, sizes, start of a new group.

    Raises:
        SettingsError: A nameserver address, or the credentials or TLS settings (also of the environment), are unusable.
        SubscriptionError: `subscriptions` is a text, or a filter is neither a `Tag` nor an `Sql`.
        RequestError: The name of the group is invalid.
    """

    def __init__(
        self,
        nameservers: str | None = None,
        *,
        group: str = "PYTHON_PULL_CONSUMER",
        subscriptions: Subscriptions | None = None,
        settings: PullConsumerSettings | None = None,
    ) -> None:
        super().__init__(
            AsyncPullConsumer(
                nameservers, group=group, subscriptions=subscriptions, settings=settings
            )
        )

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the readable queues of a topic by its last known route, sorted.

        Raises ClientClosed, and if no route is known yet, TopicNotFound if there is none, NetError if no nameserver
        answers, and BrokerRefused or CodecError if the first that answers refuses or its route is invalid.
        """
        return self._portal.call(self._client.queues, topic)

    def fetch(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        max_count: int = 32,
        wait_ms: int = 0,
        expression: Filter = ALL,
    ) -> PullResult:
        """Pull messages from an offset of a queue, without committing; return them, the status and the queue's offsets.

        Args:
            queue: Queue to read.
            offset: First queue offset.
            max_count: Maximum number of messages; a broker returns at most 32 by default.
            wait_ms: How long the broker may wait for a message if there is none, ms; 0: not at all.
            expression: Filter, `Tag(...)` or `Sql(...)`.

        Raises:
            SubscriptionError: The filter (`expression`) is neither a `Tag` nor an `Sql`.
            SettingsError: `max_count` is less than 1.
            BrokerRefused: A broker refuses, as for a queue that does not exist or may not be read, or the nameserver.
            ClientClosed, TopicNotFound, BrokerNotFound, NetError, CodecError: There is no valid answer of a broker.
        """
        return self._portal.call(
            self._client.fetch,
            queue,
            offset,
            max_count=max_count,
            wait_ms=wait_ms,
            expression=expression,
        )

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

        The broker compares only the hashes of tags; compare the tags yourself. Raises the errors of `fetch`.

        Args:
            queue: Queue to read.
            offset: First queue offset.
            max_count: Maximum number of messages; a broker returns at most 32 by default.
            max_bytes: Maximum total size of several messages, bytes; None: the broker's limit.
            wait_ms: How long the broker may wait for a message if there is none, ms; 0: not at all.
            expression: Filter, `Tag(...)` or `Sql(...)`.
        """
        return self._portal.call(
            self._client.fetch_raw,
            queue,
            offset,
            max_count=max_count,
            max_bytes=max_bytes,
            wait_ms=wait_ms,
            expression=expression,
        )

    def subscribe(self, topic: str, expression: Filter = ALL) -> None:
        """Subscribe to a topic, or change its filter; unless broadcasting, the group's members share the queues.

        Raises:
            SubscriptionError: The filter (`expression`) is neither a `Tag` nor an `Sql`.
            ClientError: This consumer has queues by `assign`.
        """
        self._portal.do(self._client.subscribe, topic, expression)

    def unsubscribe(self, topic: str) -> None:
        """End the subscription to a topic and soon give up its queues.

        This consumer remains in the group, so other members usually do not take over its queues until it closes. Raises
        SubscriptionError if the topic is not subscribed.
        """
        self._portal.do(self._client.unsubscribe, topic)

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Receive the messages of exactly these queues, unfiltered, without joining the group; replaces earlier queues.

        Raises ClientError if the consumer has subscribed topics, and ClientClosed if it is not running.
        """
        self._portal.call(self._client.assign, queues)

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue receiving a queue at another offset; drop the messages that were pulled from it before.

        Raises ClientError if this consumer does not receive the queue now, and ClientClosed if it is not running.
        """
        self._portal.call(self._client.seek, queue, offset)

    def assignment(self) -> list[MessageQueue]:
        """Return the queues that this consumer currently receives, by subscription or `assign`, sorted."""
        return self._portal.call(self._client.assignment)

    def receive(self, max_count: int = 32, *, wait_ms: int = 5000) -> list[StoredMessage]:
        """Return the next messages of the assigned queues, or of this member's share of the subscribed topics' queues.

        Raises ClientClosed if the consumer is not running.
        The messages returned before count as consumed from now on; `auto_commit` commits them, unless their queue was
        revoked.

        Args:
            max_count: Maximum number of messages.
            wait_ms: How long to wait for the first message, ms; the list is empty if none arrives, or at `close`.
        """
        return self._portal.call(self._client.receive, max_count, wait_ms=wait_ms)

    def __iter__(self) -> Iterator[StoredMessage]:
        """Yield the messages that `receive` returns, one after the other, while the consumer runs.

        With subscriptions, they are those of this member's share of the topics' queues that pass the filters. Raises
        ClientClosed if the consumer is not running when the iteration begins.
        """
        return self._portal.iterate(self._client.__aiter__)

    def min_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the first message in a queue; 0 if it never had any.

        Raises ClientClosed, TopicNotFound, BrokerNotFound, BrokerRefused, NetError or CodecError if the broker could
        not be queried.
        """
        return self._portal.call(self._client.min_offset, queue)

    def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset after the last readable message of a queue, as its broker knows it.

        Raises ClientClosed, TopicNotFound, BrokerNotFound, BrokerRefused, NetError or CodecError if the broker could
        not be queried.
        """
        return self._portal.call(self._client.max_offset, queue)

    def offset_by_time(
        self, queue: MessageQueue, timestamp_ms: int, *, upper: bool = False
    ) -> int:
        """Return the offset of the first message stored in a queue at or after a time; without one, usually its end.

        Args:
            queue: Queue to search.
            timestamp_ms: The time, ms since 1970. Brokers of 4.x return the offset nearest to it, also with `upper`.
            upper: Return instead the offset of the last message stored at or before the time (brokers of 5.x).

        Raises:
            ClientClosed, TopicNotFound, BrokerNotFound, BrokerRefused, NetError, CodecError: The broker could not be
                queried.
        """
        return self._portal.call(self._client.offset_by_time, queue, timestamp_ms, upper=upper)

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the next offset to consume that this group committed; None if there is none.

        Brokers report 0 instead of None for a queue whose first message counts as in memory. Raises ClientClosed,
        TopicNotFound, BrokerNotFound, BrokerRefused, NetError or CodecError if the broker could not be queried.
        """
        return self._portal.call(self._client.committed, queue)

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """Commit the offset from which the group is to consume a queue next, at its broker; `receive` does not move.

        After ClientClosed, TopicNotFound, BrokerNotFound, BrokerRefused, NetError or CodecError it may not be stored.
        """
        self._portal.call(self._client.commit, queue, offset)
