"""The asyncio queue reader: reads ranges of queues as records, and queries many queues concurrently.

    async with AsyncQueueReader("127.0.0.1:9876", group="copies") as reader:
        found = (await reader.queues(["orders"]))["orders"]
        ends = await reader.max_offsets(found.readable)
        for queue, end in ends.items():
            async for pull in reader.read(queue, 0, end):
                ...  # pull.body: records as stored in the log

For connectors, copies and checks. `cometmq.connect.QueueReader` is the same for threads.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TypeVar, cast

from cometmq.client.api.asking import all_of, side_by_side
from cometmq.client.api.messages import MessageApi
from cometmq.client.api.offsets import OffsetApi
from cometmq.client.argument_checks import check_counts
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.connection.routes import KnownTopic
from cometmq.client.consumer.filters import ALL, Filter, subscription_of
from cometmq.client.consumer.pull.pulls import Puller, PullTerms
from cometmq.client.consumer.pull.range_reader import RangeReader, members_of
from cometmq.client.consumer.pull.read_from import ReadFrom
from cometmq.client.consumer.settings import PullConsumerSettings
from cometmq.client.lifecycle import AsyncGroupClient
from cometmq.client.results import IndexedMessages, RawPull, TopicQueues
from cometmq.codec.bodies.missing_brokers import MissingBroker
from cometmq.codec.record import decode_records
from cometmq.model.errors import BrokerRefused, CometError, TopicNotFound
from cometmq.model.namespace import NO_NAMESPACE
from cometmq.model.queue import MessageQueue

_log = logging.getLogger(__name__)

# Maximum number of messages that a broker returns for a key: defaultQueryMaxNum of MessageStoreConfig, RocketMQ 5.3.3.
INDEXED_MAX = 32

Value = TypeVar("Value")


class AsyncQueueReader(AsyncGroupClient):
    """A reader of ranges of queues, and of the positions of many queues at once, for a group that it never joins.

    It connects at the first call. A range that is being read when it is closed usually ends with an error.

    Queries about many queues return a mapping with a result or an error for each queue, so that an unreachable broker
    does not affect queues of others. Topic names are without the namespace; records contain it.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: The consumer group that brokers see; `committed_offsets` and `commit` refer to it.
        settings: Namespace and times.
        instance: Connections of another client to share instead of `nameservers`; their owner closes them.

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
        instance: ClientInstance | None = None,
    ) -> None:
        super().__init__(nameservers, settings or PullConsumerSettings(), instance, group)
        self._puller = Puller(self._instance, self._group)
        self._offsets = OffsetApi(self._instance)
        self._messages = MessageApi(self._instance)
        self._suggested: dict[MessageQueue, int] = {}

    # --- topics, brokers and queues

    async def topics(self) -> list[str]:
        """Return the names of all topics that a nameserver lists for the namespace, including system topics.

        Raises ClientClosed, NetError if no nameserver answers, and BrokerRefused or CodecError if the first one that
        answers refuses or its answer is invalid.
        """
        self._check_running()
        known = await self._instance.nameserver_api.topics()
        short = ((self._namespace.unwrap(topic), topic) for topic in known)
        return [name for name, topic in short if self._namespace.wrap(name) == topic]

    async def brokers(self) -> list[str]:
        """Return the names of the brokers that are registered at a nameserver, sorted.

        Raises ClientClosed, NetError if no nameserver answers, and BrokerRefused or CodecError if the first one that
        answers refuses or its answer is invalid.
        """
        self._check_running()
        return sorted((await self._instance.nameserver_api.cluster()).brokers)

    async def missing_brokers(self) -> list[MissingBroker]:
        """Return the brokers that a CometMQ nameserver remembers but that are offline; empty if a nameserver refuses.

        RocketMQ's nameserver refuses. Raises ClientClosed, NetError if none answers, and CodecError if the answer is malformed.
        """
        self._check_running()
        try:
            missing = await self._instance.nameserver_api.missing_brokers()
        except BrokerRefused as refused:
            _log.debug("The nameservers do not list missing brokers: %s", refused)
            return []
        return [replace(broker, queues=self._short(broker.queues)) for broker in missing]

    def _short(self, topics: Mapping[str, int]) -> dict[str, int]:
        short = ((self._namespace.unwrap(topic), topic) for topic in topics)
        return {
            name: topics[topic] for name, topic in short if self._namespace.wrap(name) == topic
        }

    async def queues(self, topics: Iterable[str]) -> dict[str, TopicQueues | TopicNotFound]:
        """Return the current queues of each topic, or TopicNotFound for a topic without a route.

        Raises ClientClosed, NetError if no nameserver answers, and BrokerRefused or CodecError if the first one that
        answers refuses or its answer is invalid.
        """
        self._check_running()
        names = list(topics)
        answers = await side_by_side(self._instance.fresh, map(self._namespace.wrap, names))
        found: dict[str, TopicQueues | TopicNotFound] = {}
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, CometError) and not isinstance(answer, TopicNotFound):
                raise answer
            found[name] = (
                answer if isinstance(answer, TopicNotFound) else self._queues_of(name, answer)
            )
        return found

    def _queues_of(self, topic: str, known: KnownTopic) -> TopicQueues:
        readable = known.read_queues
        if self._namespace is not NO_NAMESPACE:
            readable = tuple(replace(queue, topic=topic) for queue in readable)
        ordered = known.route.write_queues(topic) if known.route.order_config else ()
        return TopicQueues(readable, tuple(ordered))

    # --- offsets

    async def min_offsets(
        self, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int | CometError]:
        """Return a dict of queues to the offset of their first message (0 if there never was one), or to an error."""
        full = self._by_full(queues)
        return _renamed(await self._offsets.min_offsets(full), full)

    async def max_offsets(
        self, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int | CometError]:
        """Return a dict of queues to the offset that their next message will get, or to an error."""
        full = self._by_full(queues)
        return _renamed(await self._offsets.max_offsets(full), full)

    async def offsets_by_time(
        self, times_ms: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, int | CometError]:
        """Return a dict of queues to the offset of the first message stored at or after a time, or to an error.

        `times_ms` are the times by queue, ms since 1970. Without such a message: usually the queue's end. Brokers of 4.x
        return the offset nearest to the time.
        """
        full = self._by_full(times_ms)
        times = {name: times_ms[queue] for name, queue in full.items()}
        return _renamed(await self._offsets.offsets_by_time(times), full)

    async def committed_offsets(
        self, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int | CometError | None]:
        """Return a dict of queues to the group's committed offset, None without one, or an error.

        Brokers report 0 instead of None for a queue whose first message counts as in memory.
        """
        full = self._by_full(queues)
        return _renamed(await self._offsets.committed_offsets(self._group, full), full)

    async def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit offsets of the group; if some fail, still try the other brokers, then raise the first CometError."""
        full = self._by_full(offsets)
        await self._offsets.commit_all(
            self._group, {name: offsets[queue] for name, queue in full.items()}
        )

    async def indexed(
        self, topic: str, key: str, *, is_id: bool = False
    ) -> IndexedMessages | None:
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
        self._check_running()
        full = self._namespace.wrap(topic)
        route = await self._instance.fresh(full)
        names = sorted({queue.broker_name for queue in route.read_queues})
        answers = await side_by_side(
            lambda name: self._messages.find(
                self._instance.address(name), full, key, max_count=INDEXED_MAX, is_id=is_id
            ),
            names,
        )
        places: set[tuple[MessageQueue, int]] = set()
        until_ms: dict[str, int] = {}
        for name, found in zip(names, all_of(answers), strict=True):
            if found is None:
                continue
            records = decode_records(found.records)
            if len(records) >= INDEXED_MAX:
                return None
            places.update(
                (MessageQueue(topic, name, each.queue_id), each.queue_offset)
                for each in records
                if each.topic == full
            )
            until_ms[name] = found.indexed_until_ms
        return IndexedMessages(frozenset(places), until_ms) if places else None

    # --- ranges

    async def read(
        self,
        queue: MessageQueue,
        start: int,
        end: int,
        *,
        max_count: int = 1024,
        depth: int = 4,
        expression: Filter = ALL,
        read_from: ReadFrom = ReadFrom.SUGGESTED,
    ) -> AsyncIterator[RawPull]:
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
        self._check_running()
        check_counts(max_count=max_count, depth=depth)
        full = self._namespace.wrap_queue(queue)
        subscription = subscription_of(full.topic, expression)

        def ask(offset: int, member: int) -> AsyncGenerator[RawPull, None]:
            terms = PullTerms(subscription, max_count, broker_id=member)
            return RangeReader(
                self._puller, full, start=offset, end=end, ask=terms, depth=depth
            ).read()

        offset, before, is_all = start, -1, expression == ALL
        while before < offset < end:
            before = offset
            route = (await self._instance.known(full.topic)).route
            members = members_of(route, queue, read_from, self._suggested)
            answers = members.pulls(queue, start=offset, end=end, is_all=is_all, ask=ask)
            async with aclosing(answers) as pulls:
                async for pull in pulls:
                    offset = pull.following(offset)
                    yield pull

    async def read_first(
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

        async def first(asked: tuple[MessageQueue, int, int]) -> RawPull | None:
            queue, start, end = asked
            pulls = self.read(
                queue,
                start,
                min(end, start + max_count),
                max_count=max_count,
                depth=1,
                expression=expression,
                read_from=read_from,
            )
            async with aclosing(cast("AsyncGenerator[RawPull]", pulls)):
                return await anext(pulls, None)

        return await side_by_side(first, ranges)

    def _by_full(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, MessageQueue]:
        self._check_running()
        return {self._namespace.wrap_queue(queue): queue for queue in queues}


def _renamed(
    answers: Mapping[MessageQueue, Value], names: Mapping[MessageQueue, MessageQueue]
) -> dict[MessageQueue, Value]:
    return {names[queue]: answer for queue, answer in answers.items()}
