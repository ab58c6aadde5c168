"""The cluster that a source reads, by way of the client: pulls and offsets on the process's one loop.

Next: cometmq.client.pull_consumer
"""

import asyncio
import logging
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from time import sleep
from typing import Any, NamedTuple, cast

from cometmq.client import AsyncPullConsumer
from cometmq.client.hub import Hub
from cometmq.client.namespace import namespace_of
from cometmq.client.offsets import BrokerOffsets
from cometmq.client.results import PullStatus, RawPull
from cometmq.client.routes import KnownTopic
from cometmq.client.settings import ClientSettings, ConsumerSettings
from cometmq.client.sync.portal import portal
from cometmq.codec.bodies.cluster import decode_cluster_info
from cometmq.codec.bodies.missing_brokers import MissingBroker, decode_missing_brokers
from cometmq.codec.bodies.topic_list import decode_topic_list
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.query import QueryMessageRequest
from cometmq.codec.record import decode_records
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import (
    BrokerNotFound,
    BrokerRefused,
    CometError,
    NetError,
    TopicNotFound,
)
from cometmq.model.queue import MessageQueue
from cometmq.model.route import MASTER_ID
from cometmq.spark.pool import shared
from cometmq.spark.source.cluster import Indexed, PullPlan, SourceCluster
from cometmq.spark.source.members import members_of
from cometmq.spark.source.settings import SourceSettings

log = logging.getLogger(__name__)

# Messages that a broker tells of one key: defaultQueryMaxNum of MessageStoreConfig, RocketMQ 5.3.3.
INDEXED_MAX = 32
ALL_TIME = (1 << 63) - 1  # Long.MAX_VALUE: until now, and whatever clocks say.

# What is gathered at once: about what is decoded at once (`pull.WINDOW_ROWS`, `WINDOW_BYTES`), so
# that a read holds two such windows.
GATHER_PULLS = 256
GATHER_BYTES = 8 << 20

_ADVANCING = (PullStatus.FOUND, PullStatus.NO_MATCHED_MESSAGE)


def source_cluster(settings: SourceSettings) -> SourceCluster:
    """The cluster that a source reads, connected."""
    retries = settings.retries, settings.retry_interval_ms
    key = (
        "source", settings.name_servers, settings.namespace, settings.group, retries, settings.credentials,
    )  # fmt: skip
    return shared(key, lambda: ClientSourceCluster(settings), settings.pool)


class ClientSourceCluster:
    """A cluster as the source sees it (`cluster.SourceCluster`), over one client.

    Args:
        settings: nameservers, namespace and group.
    """

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings
        # Above this class topics have their short names.
        self._namespace = namespace_of(settings.namespace)
        self._suggested: dict[MessageQueue, int] = {}
        self._reading = 0
        signing = ClientSettings(credentials=settings.credentials)
        self._hub = Hub(";".join(settings.name_servers), signing)
        named = ConsumerSettings(namespace=settings.namespace)
        self._consumer = AsyncPullConsumer(group=settings.group, settings=named, hub=self._hub)
        self._offsets = BrokerOffsets(self._hub)
        portal().call(self._hub.start)
        portal().call(self._consumer.start)

    @property
    def is_busy(self) -> bool:
        """Whether pulls are under way."""
        return self._reading > 0

    def close(self) -> None:
        """Close the connections."""
        portal().call(self._consumer.close)
        portal().call(self._hub.close)

    def topics(self) -> Sequence[str]:
        """All topics that the nameserver knows, of the namespace and of the system."""
        command = Command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        known = decode_topic_list(self._ask_nameserver(command).body).topics
        short = ((self._namespace.unwrap(topic), topic) for topic in known)
        return [name for name, topic in short if self._namespace.wrap(name) == topic]

    def brokers(self) -> Collection[str]:
        """The brokers that are registered."""
        command = Command(RequestCode.GET_BROKER_CLUSTER_INFO)
        return decode_cluster_info(self._ask_nameserver(command).body).brokers.keys()

    def missing_brokers(self) -> Sequence[MissingBroker]:
        """Brokers that the nameserver remembers and that are away; RocketMQ's own tells nothing."""
        try:
            answer = self._ask_nameserver(Command(RequestCode.GET_MISSING_BROKERS))
        except BrokerRefused as refused:
            log.debug("nobody knows who is missing: %s", refused)
            return ()
        return [
            replace(broker, queues=self._short(broker.queues))
            for broker in decode_missing_brokers(answer.body)
        ]

    def _short(self, topics: Mapping[str, int]) -> dict[str, int]:
        """Numbers by topic, of the topics of the namespace and under their short names."""
        short = ((self._namespace.unwrap(topic), topic) for topic in topics)
        return {
            name: topics[topic] for name, topic in short if self._namespace.wrap(name) == topic
        }

    def ordered_queues(self, topics: Sequence[str]) -> Sequence[MessageQueue]:
        """The queues that order configurations of topics name, of the routes asked for last."""
        known = ((topic, self._hub.routes.get(self._namespace.wrap(topic))) for topic in topics)
        return [
            queue
            for topic, each in known
            if each is not None and each.route.order_config
            for queue in each.route.write_queues(topic)
        ]

    def queues(
        self, topics: Sequence[str]
    ) -> Mapping[str, Sequence[MessageQueue] | TopicNotFound]:
        """The readable queues of each topic, as the nameserver has them now."""
        found: list[KnownTopic | TopicNotFound] = self._ask(
            _each, self._hub.fresh, list(map(self._namespace.wrap, topics)), TopicNotFound
        )
        return {
            topic: known
            if isinstance(known, TopicNotFound)
            else [replace(queue, topic=topic) for queue in known.read_queues]
            for topic, known in zip(topics, found, strict=True)
        }

    def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that the queue still holds."""
        return int(self._ask(self._consumer.min_offset, self._full(queue)))

    def max_offset(self, queue: MessageQueue) -> int:
        """The next offset that the queue will write."""
        return int(self._ask(self._consumer.max_offset, self._full(queue)))

    def max_offsets(
        self, queues: Sequence[MessageQueue]
    ) -> Mapping[MessageQueue, int | NetError | BrokerNotFound]:
        """The next offset of each of many queues, or why its broker cannot be asked."""
        found: list[int | NetError | BrokerNotFound] = self._ask(
            _each,
            self._consumer.max_offset,
            list(map(self._full, queues)),
            (NetError, BrokerNotFound),
        )
        return dict(zip(queues, found, strict=True))

    def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The first message stored at or after a time; the maximum when there is none."""
        return int(self._ask(self._consumer.offset_by_time, self._full(queue), timestamp_ms))

    def committed_offset(self, queue: MessageQueue) -> int | None:
        """What the group has committed, or None."""
        offset: int | None = self._ask(self._consumer.committed, self._full(queue))
        return offset

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Store where the group goes on, for all queues whose brokers can be reached."""
        portal().call(self._commit, offsets)

    def indexed(self, topic: str, key: str, *, is_id: bool) -> Indexed | None:
        """What the brokers' indexes know of a key; None: nothing, or more than they tell."""
        try:
            found: Indexed | None = portal().call(self._indexed, topic, key, is_id=is_id)
        except (NetError, BrokerRefused) as error:
            log.warning("the index is not used: %s", error)
            return None
        return found

    def mean_size(self, queue: MessageQueue, start: int) -> float | None:
        """Bytes of a stored record, of some messages from `start` on; None where there is none."""
        pull: RawPull = self._ask(self._consumer.fetch_raw, self._full(queue), start)
        records = decode_records(pull.body)
        return len(pull.body) / len(records) if records else None

    def first_pulls(
        self, asked: Sequence[tuple[MessageQueue, int, int]], plan: PullPlan
    ) -> Sequence[RawPull | None]:
        """The first answer for each queue, start and end, all asked at once."""
        self._reading += 1
        try:
            first: list[RawPull | None] = portal().call(self._first_pulls, asked, plan)
        finally:
            self._reading -= 1
        return first

    def pulls(
        self, queue: MessageQueue, *, start: int, end: int, plan: PullPlan
    ) -> Iterator[RawPull]:
        """The answers for [start, end), up to the first that has nothing at its offset."""
        full = self._full(queue)
        known: KnownTopic = portal().call(self._hub.known, full.topic)
        members = members_of(known.route, queue, plan.read_from, self._suggested)
        return members.pulls(
            queue,
            start=start,
            end=end,
            is_all=plan.is_all,
            ask=lambda first, member: self._pulls(full, first, end, plan, member),
        )

    def _pulls(
        self, queue: MessageQueue, start: int, end: int, plan: PullPlan, member: int
    ) -> Iterator[RawPull]:
        """The answers of one member of the broker group."""
        answers = self._consumer.fetch_range_raw(
            queue,
            start,
            end,
            max_count=plan.rows,
            depth=plan.depth,
            expression=plan.expression,
            broker_id=member,
        )
        ahead = portal().call(Gathering.begin, answers)
        self._reading += 1
        try:
            while pulls := portal().call(ahead.given):
                # The next answers come in while these are decoded.
                ahead = portal().call(Gathering.begin, answers)
                for pull in pulls:
                    yield pull
                    if pull.status not in _ADVANCING:
                        return
        finally:
            self._reading -= 1
            portal().call(ahead.end)

    async def _first_pulls(
        self, asked: Sequence[tuple[MessageQueue, int, int]], plan: PullPlan
    ) -> list[RawPull | None]:
        answers = await _each(partial(self._first_pull, plan), asked, CometError)
        return [None if isinstance(each, CometError) else each for each in answers]

    async def _first_pull(
        self, plan: PullPlan, asked: tuple[MessageQueue, int, int]
    ) -> RawPull | None:
        queue, start, end = asked
        full = self._full(queue)
        known = await self._hub.known(full.topic)
        members = members_of(known.route, queue, plan.read_from, self._suggested)
        if not members.has_master or members.chosen(queue) != MASTER_ID:
            return None
        answers = self._consumer.fetch_range_raw(
            full,
            start,
            min(end, start + plan.rows),
            max_count=plan.rows,
            depth=1,
            expression=plan.expression,
            broker_id=MASTER_ID,
        )
        async with aclosing(cast("AsyncGenerator[RawPull]", answers)):
            pull = await anext(answers, None)
        if pull is not None:
            members.note(queue, pull)
        return pull

    def _full(self, queue: MessageQueue) -> MessageQueue:
        """The queue as brokers know it."""
        return replace(queue, topic=self._namespace.wrap(queue.topic))

    async def _commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        full = {self._full(queue): offset for queue, offset in offsets.items()}
        await self._offsets.commit_all(self._consumer.group, full)

    async def _indexed(self, topic: str, key: str, *, is_id: bool) -> Indexed | None:
        unique = "true" if is_id else None
        full = self._namespace.wrap(topic)
        request = QueryMessageRequest(full, key, INDEXED_MAX, 0, ALL_TIME, unique)
        command = Command(RequestCode.QUERY_MESSAGE, fields=encode_fields(request))
        route = await self._hub.fresh(full)
        names = sorted({queue.broker_name for queue in route.read_queues})
        places: set[tuple[MessageQueue, int]] = set()
        until_ms: dict[str, int] = {}
        for name in names:
            try:
                answer = await self._hub.ask(self._hub.address(name), command)
            except BrokerRefused as refused:
                if refused.code == ResponseCode.QUERY_NOT_FOUND:
                    continue
                raise
            records = decode_records(answer.body)
            if len(records) >= INDEXED_MAX:
                return None
            places.update(
                (MessageQueue(topic, name, each.queue_id), each.queue_offset)
                for each in records
                if each.topic == full
            )
            until_ms[name] = int(answer.fields["indexLastUpdateTimestamp"])
        return Indexed(frozenset(places), until_ms) if places else None

    def _ask_nameserver(self, command: Command) -> Command:
        answer: Command = self._ask(self._hub.nameservers.ask, command)
        return answer

    def _ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """Ask, and again some times where nobody answers."""
        for _ in range(self._settings.retries):
            try:
                return portal().call(function, *args)
            except NetError:
                sleep(self._settings.retry_interval_ms / 1000)
        return portal().call(function, *args)


async def _each(
    ask: Callable[[Any], Awaitable[Any]],
    subjects: Sequence[Any],
    allowed: type[CometError] | tuple[type[CometError], ...],
) -> list[Any]:
    """What is answered about each, all asked at once; an error of another kind is raised."""
    answers = await asyncio.gather(*map(ask, subjects), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, allowed):
            raise answer
    return answers


class Gathering(NamedTuple):
    """Answers gathered on the loop, many for one crossing between threads.

    Attributes:
        answers: where they come from.
        task: gathers the next ones.
    """

    answers: AsyncGenerator[RawPull, None]
    task: asyncio.Task[list[RawPull]]

    @classmethod
    def begin(cls, answers: AsyncGenerator[RawPull, None]) -> "Gathering":
        """Gather the next answers; called on the loop."""
        return cls(answers, asyncio.get_running_loop().create_task(_gather(answers)))

    def given(self) -> asyncio.Task[list[RawPull]]:
        """What is gathered; an empty list at the end. Called on the loop."""
        return self.task

    async def end(self) -> None:
        """Ask for no more."""
        self.task.cancel()
        # Gathering it takes its error, which nobody else will look at.
        await asyncio.gather(self.task, return_exceptions=True)
        await self.answers.aclose()


async def _gather(answers: AsyncGenerator[RawPull, None]) -> list[RawPull]:
    pulls: list[RawPull] = []
    size = 0
    try:
        async for pull in answers:
            pulls.append(pull)
            size += len(pull.body)
            if size >= GATHER_BYTES or len(pulls) >= GATHER_PULLS:
                break
    except CometError:
        # What came before the failure counts; the next pull will meet it again.
        if not pulls:
            raise
    return pulls
