"""The queue reader: ranges of queues as records, and questions about many queues side by side.

    async with AsyncQueueReader("127.0.0.1:9876", group="copies") as reader:
        found = (await reader.queues(["orders"]))["orders"]
        ends = await reader.max_offsets(found.readable)
        for queue, end in ends.items():
            async for pull in reader.read(queue, 0, end):
                ...  # pull.body: records as they lie in the log

For connectors, copies and checks. `cometmq.client.QueueReader` is the same for threads.
"""

import logging
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import replace
from typing import TypeVar, cast

from cometmq.client.api.asking import all_of, side_by_side
from cometmq.client.api.messages import MessageApi
from cometmq.client.api.offsets import OffsetApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.connection.routes import KnownTopic
from cometmq.client.consumer.filters import ALL, Filter, subscription_of
from cometmq.client.consumer.pull.members import ReadFrom, members_of
from cometmq.client.consumer.pull.pulls import Puller, PullTerms
from cometmq.client.consumer.pull.range_reader import RangeReader
from cometmq.client.lifecycle import AsyncGroupClient
from cometmq.client.results import IndexedMessages, RawPull, TopicQueues
from cometmq.client.settings import ConsumerSettings
from cometmq.codec.bodies.missing_brokers import MissingBroker
from cometmq.codec.record import decode_records
from cometmq.model.errors import BrokerRefused, CometError, TopicNotFound
from cometmq.model.namespace import NO_NAMESPACE
from cometmq.model.queue import MessageQueue

_log = logging.getLogger(__name__)

# Messages that a broker tells of one key: defaultQueryMaxNum of MessageStoreConfig, RocketMQ 5.3.3.
INDEXED_MAX = 32

Value = TypeVar("Value")


class AsyncQueueReader(AsyncGroupClient):
    """Reads ranges of queues, and asks about many queues at once, for a group that it never joins.

    Nothing is connected before the first call. A range that is being read when it is closed ends with an error.

    What is said of many queues is a mapping with the typed error of a queue in its place: a broker that is away takes
    nothing from the queues of others. Topics have their names without the namespace; records have it.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: the consumer group that brokers see, whose offsets `committed_offsets` and `commit` mean.
        settings: namespace and times.
        instance: share another client's connections; its owner closes it.

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
        instance: ClientInstance | None = None,
    ) -> None:
        super().__init__(nameservers, settings or ConsumerSettings(), instance, group)
        self._puller = Puller(self._instance, self._group)
        self._offsets = OffsetApi(self._instance)
        self._messages = MessageApi(self._instance)
        self._suggested: dict[MessageQueue, int] = {}

    # --- what there is

    async def topics(self) -> list[str]:
        """Names of all topics of the namespace, the system's among them.

        Raises:
            ClientClosed, NetError, BrokerRefused, CodecError: the nameservers cannot be asked.
        """
        self._check_running()
        known = await self._instance.nameserver_api.topics()
        short = ((self._namespace.unwrap(topic), topic) for topic in known)
        return [name for name, topic in short if self._namespace.wrap(name) == topic]

    async def brokers(self) -> list[str]:
        """Names of the brokers that are registered now, sorted; raises what `topics` raises."""
        self._check_running()
        return sorted((await self._instance.nameserver_api.cluster()).brokers)

    async def missing_brokers(self) -> list[MissingBroker]:
        """Brokers that the nameserver remembers and that are away; none where it is RocketMQ's own.

        Raises:
            ClientClosed, NetError, CodecError: the nameservers cannot be asked.
        """
        self._check_running()
        try:
            missing = await self._instance.nameserver_api.missing_brokers()
        except BrokerRefused as refused:
            _log.debug("nobody knows who is missing: %s", refused)
            return []
        return [replace(broker, queues=self._short(broker.queues)) for broker in missing]

    def _short(self, topics: Mapping[str, int]) -> dict[str, int]:
        """Numbers by topic, of the topics of the namespace and under their short names."""
        short = ((self._namespace.unwrap(topic), topic) for topic in topics)
        return {
            name: topics[topic] for name, topic in short if self._namespace.wrap(name) == topic
        }

    async def queues(self, topics: Iterable[str]) -> dict[str, TopicQueues | TopicNotFound]:
        """The queues of each topic, as the nameserver has them now, or the error that it has none.

        Raises:
            ClientClosed, NetError, BrokerRefused, CodecError: the nameservers cannot be asked.
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

    # --- where queues and the group stand

    async def min_offsets(
        self, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int | CometError]:
        """The first offset that each queue still holds, or the error in its place."""
        full = self._by_full(queues)
        return _renamed(await self._offsets.min_offsets(full), full)

    async def max_offsets(
        self, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int | CometError]:
        """The offset that the next message of each queue will get, or the error in its place."""
        full = self._by_full(queues)
        return _renamed(await self._offsets.max_offsets(full), full)

    async def offsets_by_time(
        self, times_ms: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, int | CometError]:
        """The first message of each queue stored at its time (ms since 1970) or later, its end for none, or the error."""
        full = self._by_full(times_ms)
        times = {name: times_ms[queue] for name, queue in full.items()}
        return _renamed(await self._offsets.offsets_by_time(times), full)

    async def committed_offsets(
        self, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int | CometError | None]:
        """The offset that the group has committed in each queue, None for none, or the error in its place."""
        full = self._by_full(queues)
        return _renamed(await self._offsets.committed_offsets(self._group, full), full)

    async def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Store where the group goes on, for all queues whose brokers can be reached.

        Raises:
            CometError: what the first broker said that did not store it.
        """
        full = self._by_full(offsets)
        await self._offsets.commit_all(
            self._group, {name: offsets[queue] for name, queue in full.items()}
        )

    async def indexed(
        self, topic: str, key: str, *, is_id: bool = False
    ) -> IndexedMessages | None:
        """The places that the brokers' indexes have under a key; None: none, or more than they tell at once.

        Args:
            topic: of the messages.
            key: one of their keys, or a message's id.
            is_id: whether it is the id.

        Raises:
            TopicNotFound: the nameserver knows none.
            ClientClosed, NetError, BrokerRefused, CodecError: a broker of the topic cannot be asked.
        """
        self._check_running()
        full = self._namespace.wrap(topic)
        route = await self._instance.fresh(full)
        names = sorted({queue.broker_name for queue in route.read_queues})
        answers = await side_by_side(
            lambda name: self._messages.find(
                self._instance.address(name), full, key, count_max=INDEXED_MAX, is_id=is_id
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
        self._check_running()
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
        """The first answer of `read` for each range, all asked side by side, or the error in its place.

        Args:
            ranges: queue, start and end; of an empty one there is none.
            max_count: as in `read`.
            expression: as in `read`.
            read_from: as in `read`.
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
