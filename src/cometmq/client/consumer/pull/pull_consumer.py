"""The asyncio pull consumer: reads messages on request, by offset or as the next ones of a subscription.

    async with AsyncPullConsumer("127.0.0.1:9876", group="reports") as consumer:
        for queue in await consumer.queues("orders"):
            pull = await consumer.fetch(queue, await consumer.min_offset(queue))
            for message in pull.messages: ...

    async with AsyncPullConsumer("127.0.0.1:9876", group="reports") as consumer:
        consumer.subscribe("orders", Tag("paid"))       # queues are shared with the group's other members
        async for message in consumer: ...

`cometmq.PullConsumer` is the same for threads.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

from cometmq.client.api.offsets import OffsetApi
from cometmq.client.argument_checks import CAUSED, check_counts, explain
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.filters import ALL, Filter, Subscriptions, each_of, subscription_of
from cometmq.client.consumer.group_member import GroupMember
from cometmq.client.consumer.pull.process_queue import ProcessQueue
from cometmq.client.consumer.pull.pull_loop import Batch, PullLoop
from cometmq.client.consumer.pull.pulls import Puller, PullTerms
from cometmq.client.consumer.pull.received import RecordUnpacker
from cometmq.client.consumer.settings import PullConsumerSettings
from cometmq.client.lifecycle import AsyncGroupClient
from cometmq.client.results import PullResult, RawPull
from cometmq.codec.record import Record
from cometmq.model.errors import ClientError, SubscriptionError
from cometmq.model.message import StoredMessage
from cometmq.model.queue import MessageQueue
from cometmq.model.text import as_given
from cometmq.net.loop import not_quiet
from cometmq.net.tasks import Tasks


class _Item(NamedTuple):
    loop: PullLoop
    process_queue: ProcessQueue
    message: StoredMessage


class Inbox:
    """The pulled messages of one pull consumer: those that wait for its user, and those received but not finished."""

    def __init__(self) -> None:
        self._waiting: deque[_Item] = deque()
        self._handed_out: list[_Item] = []
        self._arrived = asyncio.Event()

    def put(self, loop: PullLoop, messages: Batch) -> None:
        """Add messages that the pull loop of a queue has pulled."""
        self._waiting.extend(_Item(loop, loop.process_queue, message) for message in messages)
        self._arrived.set()

    def drop(self, loop: PullLoop) -> None:
        """Drop a queue's messages, received ones too, because it was revoked or the user seeks; `finish` skips them."""
        self._waiting = deque(item for item in self._waiting if item.loop is not loop)
        self._handed_out = [item for item in self._handed_out if item.loop is not loop]

    async def take(self, max_count: int, wait_ms: float) -> list[StoredMessage]:
        """Return up to `max_count` messages, waiting up to `wait_ms` ms for the first, or until `wake`; perhaps none."""
        if not self._waiting:
            self._arrived.clear()
            try:
                async with asyncio.timeout(wait_ms / 1000):
                    await self._arrived.wait()
            except TimeoutError:
                return []
        count = min(max_count, len(self._waiting))
        taken = [self._waiting.popleft() for _ in range(count)]
        self._handed_out += taken
        return [item.message for item in taken]

    def finish(self) -> None:
        """Mark the received messages as consumed, because the user asks for more or closes the consumer."""
        done, self._handed_out = self._handed_out, []
        for item in done:
            item.loop.finish(item.process_queue, [item.message.queue_offset])

    def forget(self) -> None:
        """Mark the received messages as not consumed, so that the next owner of the queue usually gets them again."""
        self._handed_out.clear()

    def wake(self) -> None:
        """Wake up a waiting `take`, because the consumer is closing."""
        self._arrived.set()


class AsyncPullConsumer(AsyncGroupClient):
    """A consumer that reads messages on request: by queue and offset, or the next ones of its topics or queues.

    When it is closed, it commits the messages that `receive` returned (with `auto_commit`), except those returned last
    if its `async with` block ended with an error, and leaves the group.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: Its consumer group, which `committed` and `commit` refer to.
        subscriptions: A filter for each topic, `{"orders": Tag("paid")}`, or topics without filters, `["orders"]`.
        settings: Times, sizes, start of a new group.
        instance: Connections of another client to share instead of `nameservers`; their owner closes them.

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
        instance: ClientInstance | None = None,
    ) -> None:
        self._settings = settings or PullConsumerSettings()
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

    # --- life cycle

    async def _open(self) -> None:
        self._at_close(self._member.leave)
        self._at_close(self._member.stop_pulling)
        self._at_close(self._tasks.close)
        self._at_close(self._inbox.wake)
        self._at_close(self._inbox.finish)
        if self._member.topics():
            await self._member.start()

    def _check_running(self) -> None:
        not_quiet()  # Keeps virtual time from skipping: a program that fetches in a loop waits for brokers and sets no timer.
        super()._check_running()

    async def __aexit__(self, kind: object = None, *_rest: object) -> None:
        """Close the consumer; after an error in the block, the messages last received do not count as consumed."""
        if kind is not None:
            self._inbox.forget()
        await self.close()

    # --- by queue and offset

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the readable queues of a topic by its last known route, sorted.

        Raises ClientClosed, and if no route is known yet, TopicNotFound if there is none, NetError if no nameserver
        answers, and BrokerRefused or CodecError if the first that answers refuses or its route is invalid.
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
        self._check_running()
        check_counts(max_count=max_count)
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
        """Pull undecoded records from an offset, for callers that decode them; for ranges use `AsyncQueueReader`.

        The broker compares only the hashes of tags; compare the tags yourself. Raises the errors of `fetch`.

        Args:
            queue: Queue to read.
            offset: First queue offset.
            max_count: Maximum number of messages; a broker returns at most 32 by default.
            max_bytes: Maximum total size of several messages, bytes; None: the broker's limit.
            wait_ms: How long the broker may wait for a message if there is none, ms; 0: not at all.
            expression: Filter, `Tag(...)` or `Sql(...)`.
        """
        self._check_running()
        check_counts(max_count=max_count)
        queue = self._namespace.wrap_queue(queue)
        subscription = subscription_of(queue.topic, expression)
        return await self._puller.pull(
            queue, offset, PullTerms(subscription, max_count, max_bytes, wait_ms)
        )

    # --- by subscription or assignment

    def subscribe(self, topic: str, expression: Filter = ALL) -> None:
        """Subscribe to a topic, or change its filter; unless broadcasting, the group's members share the queues.

        Raises:
            SubscriptionError: The filter (`expression`) is neither a `Tag` nor an `Sql`.
            ClientError: This consumer has queues by `assign`.
        """
        if self._member.is_assigned:
            raise ClientError(
                f"{self._named} has assigned queues; use another consumer to subscribe"
            )
        self._member.subscribe(subscription_of(self._namespace.wrap(topic), expression))
        if self._is_open:
            self._tasks.spawn(self._member.start(), "join")

    def unsubscribe(self, topic: str) -> None:
        """End the subscription to a topic and soon give up its queues.

        This consumer remains in the group, so other members usually do not take over its queues until it closes. Raises
        SubscriptionError if the topic is not subscribed.
        """
        full = self._namespace.wrap(topic)
        if full not in self._member.topics():
            raise SubscriptionError(f"{self._named} is not subscribed to {as_given(topic, 80)}")
        self._member.unsubscribe(full)

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Receive the messages of exactly these queues, unfiltered, without joining the group; replaces earlier queues.

        Raises ClientError if the consumer has subscribed topics, and ClientClosed if it is not running.
        """
        self._check_running()
        if self._member.topics():
            raise ClientError(
                f"{self._named} has subscriptions; use another consumer to assign queues"
            )
        await self._member.assign(map(self._namespace.wrap_queue, queues))

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue receiving a queue at another offset; drop the messages that were pulled from it before.

        Raises ClientError if this consumer does not receive the queue now, and ClientClosed if it is not running.
        """
        self._check_running()
        loop = self._member.loops.get(self._namespace.wrap_queue(queue))
        if loop is None:
            raise ClientError(
                f"{self._named} does not receive {queue}; it receives "
                f"{', '.join(map(str, await self.assignment())) or 'nothing yet'}"
            )
        self._inbox.drop(loop)
        loop.seek(offset)

    async def assignment(self) -> list[MessageQueue]:
        """Return the queues that this consumer currently receives, by subscription or `assign`, sorted."""
        return sorted(map(self._namespace.unwrap_queue, self._member.loops))

    async def receive(self, max_count: int = 32, *, wait_ms: int = 5000) -> list[StoredMessage]:
        """Return the next messages of the assigned queues, or of this member's share of the subscribed topics' queues.

        Raises ClientClosed if the consumer is not running.
        The messages returned before count as consumed from now on; `auto_commit` commits them, unless their queue was
        revoked.

        Args:
            max_count: Maximum number of messages.
            wait_ms: How long to wait for the first message, ms; the list is empty if none arrives, or at `close`.
        """
        self._check_running()
        self._inbox.finish()
        try:
            return await self._inbox.take(max_count, wait_ms)
        except CAUSED as error:
            named = explain(self.receive, (max_count,), {"wait_ms": wait_ms}, error)
        raise named

    async def __aiter__(self) -> AsyncIterator[StoredMessage]:
        """Yield the messages that `receive` returns, one after the other, while the consumer runs.

        With subscriptions, they are those of this member's share of the topics' queues that pass the filters. Raises
        ClientClosed if the consumer is not running when the iteration begins.
        """
        self._check_running()
        while self._is_open:
            for message in await self.receive(1):
                yield message

    # --- offsets

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the first message in a queue; 0 if it never had any.

        Raises ClientClosed, TopicNotFound, BrokerNotFound, BrokerRefused, NetError or CodecError if the broker could
        not be queried.
        """
        self._check_running()
        return await self._offsets.min_offset(self._namespace.wrap_queue(queue))

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset after the last readable message of a queue, as its broker knows it.

        Raises ClientClosed, TopicNotFound, BrokerNotFound, BrokerRefused, NetError or CodecError if the broker could
        not be queried.
        """
        self._check_running()
        return await self._offsets.max_offset(self._namespace.wrap_queue(queue))

    async def offset_by_time(
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
        self._check_running()
        full = self._namespace.wrap_queue(queue)
        return await self._offsets.offset_by_time(full, timestamp_ms, upper=upper)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the next offset to consume that this group committed; None if there is none.

        Brokers report 0 instead of None for a queue whose first message counts as in memory. Raises ClientClosed,
        TopicNotFound, BrokerNotFound, BrokerRefused, NetError or CodecError if the broker could not be queried.
        """
        self._check_running()
        return await self._offsets.committed(self._group, self._namespace.wrap_queue(queue))

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Commit the offset from which the group is to consume a queue next, at its broker; `receive` does not move.

        After ClientClosed, TopicNotFound, BrokerNotFound, BrokerRefused, NetError or CodecError it may not be stored.
        """
        self._check_running()
        await self._offsets.commit(self._group, self._namespace.wrap_queue(queue), offset)


def _pass_over(loop: PullLoop, record: Record) -> None:
    # There is no listener that could refuse it; `PullLoop` has logged the error.
    loop.finish(loop.process_queue, [record.queue_offset])
