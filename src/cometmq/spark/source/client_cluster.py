"""The cluster that a source reads, by way of the client: pulls and offsets on the process's one loop.

Next: cometmq.client.consumer.pull.pull_consumer
"""

import asyncio
import logging
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from time import sleep
from typing import Any, NamedTuple, cast

from cometmq.client import (
    AsyncPullConsumer,
    ClientSettings,
    ConsumerSettings,
    PullStatus,
    RawPull,
)
from cometmq.client.api.asking import all_of, side_by_side
from cometmq.client.api.messages import MessageApi
from cometmq.client.api.offsets import OffsetApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.connection.routes import KnownTopic
from cometmq.client.sync.portal import portal
from cometmq.codec.bodies.cluster import ClusterInfo
from cometmq.codec.bodies.missing_brokers import MissingBroker
from cometmq.codec.record import decode_records
from cometmq.model.errors import (
    BrokerNotFound,
    BrokerRefused,
    ClientClosed,
    CometError,
    NetError,
    TopicNotFound,
)
from cometmq.model.namespace import namespace_of
from cometmq.model.queue import MessageQueue
from cometmq.model.route import MASTER_ID
from cometmq.spark.pool import shared
from cometmq.spark.source.cluster import Answers, Indexed, PullPlan, SourceCluster, Value
from cometmq.spark.source.members import members_of
from cometmq.spark.source.settings import SourceSettings

log = logging.getLogger(__name__)

# Messages that a broker tells of one key: defaultQueryMaxNum of MessageStoreConfig, RocketMQ 5.3.3.
INDEXED_MAX = 32

# What is gathered at once: about what is decoded at once (`pull.WINDOW_ROWS`, `WINDOW_BYTES`), so
# that a read holds two such windows.
GATHER_PULLS = 256
GATHER_BYTES = 8 << 20

_ADVANCING = (PullStatus.FOUND, PullStatus.NO_MATCHED_MESSAGE)


def source_cluster(settings: SourceSettings) -> SourceCluster:
    """The cluster that a source reads, connected."""
    retries = settings.retries, settings.retry_interval_ms
    key = (
        "source", settings.name_servers, settings.namespace, settings.group, retries, settings.credentials, settings.tls,
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
        self._is_closed = False
        signing = ClientSettings(credentials=settings.credentials, tls=settings.tls)
        self._instance = ClientInstance(";".join(settings.name_servers), signing)
        named = ConsumerSettings(namespace=settings.namespace)
        self._consumer = AsyncPullConsumer(
            group=settings.group, settings=named, instance=self._instance
        )
        self._offsets = OffsetApi(self._instance)
        self._messages = MessageApi(self._instance)
        portal().call(self._instance.start)
        portal().call(self._consumer.start)

    @property
    def is_busy(self) -> bool:
        """Whether pulls are under way."""
        return self._reading > 0

    def close(self) -> None:
        """Close the connections."""
        self._is_closed = True
        portal().call(self._consumer.close)
        portal().call(self._instance.close)

    def topics(self) -> Sequence[str]:
        """All topics that the nameserver knows, of the namespace and of the system."""
        known: list[str] = self._ask(self._instance.nameserver_api.topics)
        short = ((self._namespace.unwrap(topic), topic) for topic in known)
        return [name for name, topic in short if self._namespace.wrap(name) == topic]

    def brokers(self) -> Collection[str]:
        """The brokers that are registered."""
        info: ClusterInfo = self._ask(self._instance.nameserver_api.cluster)
        return info.brokers.keys()

    def missing_brokers(self) -> Sequence[MissingBroker]:
        """Brokers that the nameserver remembers and that are away; RocketMQ's own tells nothing."""
        try:
            missing: Sequence[MissingBroker] = self._ask(
                self._instance.nameserver_api.missing_brokers
            )
        except BrokerRefused as refused:
            log.debug("nobody knows who is missing: %s", refused)
            return ()
        return [replace(broker, queues=self._short(broker.queues)) for broker in missing]

    def _short(self, topics: Mapping[str, int]) -> dict[str, int]:
        """Numbers by topic, of the topics of the namespace and under their short names."""
        short = ((self._namespace.unwrap(topic), topic) for topic in topics)
        return {
            name: topics[topic] for name, topic in short if self._namespace.wrap(name) == topic
        }

    def ordered_queues(self, topics: Sequence[str]) -> Sequence[MessageQueue]:
        """The queues that order configurations of topics name, of the routes asked for last."""
        known = (
            (topic, self._instance.routes.get(self._namespace.wrap(topic))) for topic in topics
        )
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
            self._fresh, list(map(self._namespace.wrap, topics))
        )
        return {
            topic: known
            if isinstance(known, TopicNotFound)
            else [replace(queue, topic=topic) for queue in known.read_queues]
            for topic, known in zip(topics, found, strict=True)
        }

    def min_offsets(self, queues: Sequence[MessageQueue]) -> Answers[int]:
        """The first offset that each queue still holds."""
        return self._of_each(self._offsets.min_offsets, queues, self._settings.retries)

    def max_offsets(
        self, queues: Sequence[MessageQueue], *, patient: bool = False
    ) -> Answers[int]:
        """The next offset that each queue will write; `patient`: asked again where nobody answers."""
        retries = self._settings.retries if patient else 0
        return self._of_each(self._offsets.max_offsets, queues, retries)

    def offsets_by_time(self, times_ms: Mapping[MessageQueue, int]) -> Answers[int]:
        """The first message of each queue stored at or after its time; its end where there is none."""
        times = {self._full(queue): at for queue, at in times_ms.items()}
        return self._of_each(
            lambda queues: self._offsets.offsets_by_time(
                {each: times[each] for each in queues}
            ),
            times_ms,
            self._settings.retries,
        )

    def committed_offsets(self, queues: Sequence[MessageQueue]) -> Answers[int | None]:
        """The offset that the group has committed in each queue, or None."""
        group = self._consumer.group
        return self._of_each(
            lambda each: self._offsets.committed_offsets(group, each),
            queues,
            self._settings.retries,
        )

    def _of_each(
        self,
        ask: Callable[
            [Collection[MessageQueue]], Awaitable[Mapping[MessageQueue, Value | CometError]]
        ],
        queues: Iterable[MessageQueue],
        retries: int,
    ) -> Answers[Value]:
        """Ask about many queues, and again some times about those whose brokers do not answer."""
        if self._is_closed:  # Its connections would be made again, and left open.
            raise ClientClosed("this cluster of the source was closed")
        short = {self._full(queue): queue for queue in queues}
        found: dict[MessageQueue, Value | CometError] = {}
        left = list(short)
        for tries_left in range(retries, -1, -1):
            found.update(portal().call(ask, left))
            left = [each for each in short if isinstance(found[each], NetError)]
            if not left:
                break
            if tries_left:
                sleep(self._settings.retry_interval_ms / 1000)
        answers: dict[MessageQueue, Value | NetError | BrokerNotFound] = {}
        for full, answer in found.items():
            if isinstance(answer, CometError) and not isinstance(
                answer, NetError | BrokerNotFound
            ):
                raise answer
            answers[short[full]] = answer
        return answers

    async def _fresh(self, topics: Sequence[str]) -> list[KnownTopic | TopicNotFound]:
        found: list[KnownTopic | TopicNotFound] = []
        for answer in await side_by_side(self._instance.fresh, topics):
            if isinstance(answer, CometError) and not isinstance(answer, TopicNotFound):
                raise answer
            found.append(answer)
        return found

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Store where the group goes on, for all queues whose brokers can be reached."""
        portal().call(self._commit, offsets)

    def indexed(self, topic: str, key: str, *, is_id: bool) -> Indexed | None:
        """The messages that the brokers' indexes have under a key; None: none, or more than they tell."""
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
        known: KnownTopic = portal().call(self._instance.known, full.topic)
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
        answers = await side_by_side(partial(self._first_pull, plan), asked)
        return [None if isinstance(each, CometError) else each for each in answers]

    async def _first_pull(
        self, plan: PullPlan, asked: tuple[MessageQueue, int, int]
    ) -> RawPull | None:
        queue, start, end = asked
        full = self._full(queue)
        known = await self._instance.known(full.topic)
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
        return Indexed(frozenset(places), until_ms) if places else None

    def _ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """Ask, and again some times where nobody answers."""
        for _ in range(self._settings.retries):
            try:
                return portal().call(function, *args)
            except NetError:
                sleep(self._settings.retry_interval_ms / 1000)
        return portal().call(function, *args)


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
        """The task that gathers pulls; it gives an empty list at the end; called on the loop."""
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
