"""The pull consumer: reads messages when its user asks, by offset or as the next ones of a subscription.

    async with AsyncPullConsumer("127.0.0.1:9876", group="reports") as consumer:
        for queue in await consumer.queues("orders"):
            pull = await consumer.fetch(queue, await consumer.min_offset(queue))
            for message in pull.messages: ...

    async with AsyncPullConsumer("127.0.0.1:9876", group="reports") as consumer:
        consumer.subscribe("orders", Tag("paid"))       # shared with the group's other members
        async for message in consumer: ...

`cometmq.client.PullConsumer` is the same for threads.
"""

from collections.abc import AsyncIterator, Iterable

from cometmq.client.api.offsets import OffsetApi
from cometmq.client.argument_checks import CAUSED, explain
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.filters import ALL, Filter, Subscriptions, each_of, subscription_of
from cometmq.client.consumer.group_member import GroupMember
from cometmq.client.consumer.pull.inbox import Inbox
from cometmq.client.consumer.pull.pull_loop import PullLoop
from cometmq.client.consumer.pull.pulls import Puller, PullTerms
from cometmq.client.consumer.pull.received import RecordUnpacker
from cometmq.client.lifecycle import AsyncGroupClient
from cometmq.client.results import PullResult, RawPull
from cometmq.client.settings import ConsumerSettings
from cometmq.codec.record import Record
from cometmq.model.errors import ClientError, SubscriptionError
from cometmq.model.message import StoredMessage
from cometmq.model.queue import MessageQueue
from cometmq.net.loop import not_quiet
from cometmq.net.tasks import Tasks


class AsyncPullConsumer(AsyncGroupClient):
    """A consumer that reads messages on demand: by queue and offset, or the next of a subscription.

    When it is closed it commits what was received, and leaves the group.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: its consumer group, whose offsets `committed` and `commit` mean.
        subscriptions: a filter for each topic, `{"orders": Tag("paid")}`, or topics, `["orders"]`, of
            which all messages are wanted; more by `subscribe`.
        settings: times and sizes.
        instance: share another client's connections; its owner closes it.

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
        instance: ClientInstance | None = None,
    ) -> None:
        self._settings = settings or ConsumerSettings()
        super().__init__(nameservers, self._settings, instance, group)
        group = self._group
        self._puller = Puller(self._instance, group)
        self._offsets = OffsetApi(self._instance)
        self._inbox = Inbox()
        self._member = GroupMember(
            self._instance,
            group,
            self._settings,
            is_push=False,
            deliver=self._inbox.put,
            discard=_pass_over,
            revoked=self._inbox.drop,
        )
        self._tasks = Tasks(f"{group} subscriptions")
        for topic, expression in each_of(subscriptions):
            self.subscribe(topic, expression)

    # --- life

    async def _open(self) -> None:
        """Join the group; where nothing is subscribed, nothing is connected before the first call."""
        self._at_close(self._member.leave)
        self._at_close(self._member.stop_pulling)
        self._at_close(self._tasks.close)
        self._at_close(self._inbox.wake)
        self._at_close(self._inbox.finish)
        if self._member.topics():
            await self._member.start()

    def _check_running(self) -> None:
        not_quiet()  # Whoever fetches again and again waits for brokers, and sets no timer.
        super()._check_running()

    async def __aexit__(self, kind: object = None, *_rest: object) -> None:
        """Close the consumer; what was being worked on when an error left the block comes again."""
        if kind is not None:
            self._inbox.forget()
        await self.close()

    # --- by queue and offset

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read, sorted.

        Raises:
            TopicNotFound: the nameserver knows no route of it.
            ClientClosed, NetError, BrokerRefused: the nameservers cannot be asked.
        """
        self._check_running()
        known = await self._instance.known(self._namespace.wrap(topic))
        return [*map(self._namespace.unwrap_queue, known.read_queues)]

    async def fetch(
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
        self._check_running()
        queue = self._namespace.wrap_queue(queue)
        subscription = subscription_of(queue.topic, expression)
        ask = PullTerms(subscription, max_count, self._settings.pull_bytes or None, wait_ms)
        pull = await self._puller.pull(queue, offset, ask)
        unpacking = RecordUnpacker(
            queue, self._settings.body_size_max, max_count, self._namespace
        )
        messages, rest = await unpacking.read(pull.body)
        wanted = tuple(each for each in messages if subscription.matches_tag(each.tag))
        return PullResult(
            pull.status,
            pull.next_offset if rest is None else rest,
            pull.min_offset,
            pull.max_offset,
            wanted,
        )

    async def fetch_raw(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        max_count: int = 32,
        max_bytes: int | None = None,
        wait_ms: int = 0,
        expression: Filter = ALL,
    ) -> RawPull:
        """Pull records from an offset on as they came, for those who decode them themselves; ranges: `AsyncQueueReader`.

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
        self._check_running()
        queue = self._namespace.wrap_queue(queue)
        subscription = subscription_of(queue.topic, expression)
        return await self._puller.pull(
            queue, offset, PullTerms(subscription, max_count, max_bytes, wait_ms)
        )

    # --- by subscription or assignment

    def subscribe(self, topic: str, expression: Filter = ALL) -> None:
        """Subscribe to a topic; its queues are shared with the group's other members.

        Args:
            topic: one more, or one whose filter is to be another.
            expression: which of its messages, `Tag(...)` or `Sql(...)`.

        Raises:
            SubscriptionError: the expression is neither.
            ClientError: queues were assigned already.
        """
        if self._member.is_assigned:
            raise ClientError(f"{self!r} has assigned queues; subscribe with another consumer")
        self._member.subscribe(subscription_of(self._namespace.wrap(topic), expression))
        if self._is_open:
            self._tasks.spawn(self._member.start(), "join")

    def unsubscribe(self, topic: str) -> None:
        """End the subscription to a topic; its queues go to the other members of the group.

        Raises:
            SubscriptionError: it is not subscribed.
        """
        full = self._namespace.wrap(topic)
        if full not in self._member.topics():
            raise SubscriptionError(f"{topic!r:.80} is not subscribed by {self!r}")
        self._member.unsubscribe(full)

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Receive exactly the messages of these queues, whoever else does.

        Raises:
            ClientError: topics were subscribed already.
            ClientClosed: not started, or closed.
        """
        self._check_running()
        if self._member.topics():
            raise ClientError(f"{self!r} has subscriptions; assign with another consumer")
        await self._member.assign(map(self._namespace.wrap_queue, queues))

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on receiving a queue at another offset.

        Raises:
            ClientError: the queue is not this consumer's now.
            ClientClosed: not started, or closed.
        """
        self._check_running()
        loop = self._member.loops.get(self._namespace.wrap_queue(queue))
        if loop is None:
            raise ClientError(
                f"{queue} is not received by {self!r}; it receives "
                f"{', '.join(map(str, await self.assignment())) or 'nothing yet'}"
            )
        self._inbox.drop(loop)
        loop.seek(offset)

    async def assignment(self) -> list[MessageQueue]:
        """The queues that are received now, sorted: assigned, or this member's share."""
        return sorted(map(self._namespace.unwrap_queue, self._member.loops))

    async def receive(self, max_count: int = 32, *, wait_ms: int = 5000) -> list[StoredMessage]:
        """The next messages of what was subscribed or assigned.

        What the call before gave counts as consumed from now on and will be committed
        (`auto_commit`).

        Args:
            max_count: messages at most.
            wait_ms: how long to wait for the first one.

        Raises:
            ClientClosed: not started, or closed.
        """
        self._check_running()
        self._inbox.finish()
        try:
            return await self._inbox.take(max_count, wait_ms)
        except CAUSED as error:
            named = explain(self.receive, (max_count,), {"wait_ms": wait_ms}, error)
        raise named

    async def __aiter__(self) -> AsyncIterator[StoredMessage]:
        """Every message of what was subscribed or assigned, until the consumer is closed."""
        while self._is_open:
            for message in await self.receive(1):
                yield message

    # --- offsets

    async def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the queue's first message.

        Raises:
            ClientClosed, TopicNotFound, BrokerNotFound, BrokerRefused, NetError, CodecError: no
                answer.
        """
        self._check_running()
        return await self._offsets.min_offset(self._namespace.wrap_queue(queue))

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the queue's next message will get.

        Raises:
            ClientClosed, TopicNotFound, BrokerNotFound, BrokerRefused, NetError, CodecError: no
                answer.
        """
        self._check_running()
        return await self._offsets.max_offset(self._namespace.wrap_queue(queue))

    async def offset_by_time(
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
        self._check_running()
        full = self._namespace.wrap_queue(queue)
        return await self._offsets.offset_by_time(full, timestamp_ms, upper=upper)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The next offset that this group will consume; None when it never committed one.

        Raises:
            ClientClosed, TopicNotFound, BrokerNotFound, BrokerRefused, NetError, CodecError: no
                answer.
        """
        self._check_running()
        return await self._offsets.committed(self._group, self._namespace.wrap_queue(queue))

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store the next offset that this group will consume.

        Raises:
            ClientClosed, TopicNotFound, BrokerNotFound, BrokerRefused, NetError, CodecError: it
                may not be stored.
        """
        self._check_running()
        await self._offsets.commit(self._group, self._namespace.wrap_queue(queue), offset)


def _pass_over(loop: PullLoop, record: Record) -> None:
    # There is no listener that could fail on it; `PullLoop` has logged where it is and why.
    loop.finish(loop.process_queue, [record.queue_offset])
