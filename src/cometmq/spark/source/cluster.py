"""Access of the Spark source to a cluster; tasks of a process with equal settings share a client.

A pull returns record bytes (docs/design/0021-spark-source.md).
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import sleep
from typing import TypeVar

from cometmq import ALL, Filter, PullConsumerSettings
from cometmq.admin import MissingBroker
from cometmq.connect import IndexedMessages, QueueReader, RawPull, ReadFrom, TopicQueues
from cometmq.model.errors import (
    BrokerNotFound,
    BrokerRefused,
    CometError,
    NetError,
    TopicNotFound,
)
from cometmq.model.queue import MessageQueue
from cometmq.offline.columns.window import record_starts
from cometmq.spark.pool import shared
from cometmq.spark.source.settings import SourceSettings

log = logging.getLogger(__name__)

# Messages per queue from which the mean message size is computed.
SIZED_ROWS = 32


@dataclass(frozen=True)
class PullPlan:
    """Parameters for pulling messages of a queue.

    Attributes:
        rows: Maximum number of messages per request.
        depth: Maximum number of concurrent requests.
        expression: Filter that the broker applies.
        read_from: Whether to pull from the master, a replica, or as the broker suggests.
    """

    rows: int
    depth: int
    expression: Filter = ALL
    read_from: ReadFrom = ReadFrom.SUGGESTED

    @property
    def is_all(self) -> bool:
        """Whether no filter is set: `expression` is `ALL`."""
        return self.expression == ALL


Value = TypeVar("Value")

# Result per queue of a request about many queues, or the error if the queue's broker cannot be reached.
Answers = Mapping[MessageQueue, Value | NetError | BrokerNotFound]


def all_known(answers: Answers[Value]) -> dict[MessageQueue, Value]:
    """Return the results if there is one for each queue; raise the first NetError or BrokerNotFound among them."""
    known: dict[MessageQueue, Value] = {}
    for queue, answer in answers.items():
        if isinstance(answer, NetError | BrokerNotFound):
            raise answer
        known[queue] = answer
    return known


Answer = TypeVar("Answer")
Size = float | None


class SourceCluster:
    """Access of the source to a cluster by one queue reader of the client, which queries many queues at once.

    A call may raise CometError. In results by queue, only an unreachable broker is an error of its queues; a refusal or
    invalid answer is raised.
    """

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings
        self._reading = 0
        self._ordered: dict[str, Sequence[MessageQueue]] = {}
        self._reader = QueueReader(
            ";".join(settings.name_servers),
            group=settings.group,
            settings=PullConsumerSettings(
                namespace=settings.namespace, credentials=settings.credentials, tls=settings.tls
            ),
        )
        self._reader.start()

    @property
    def is_busy(self) -> bool:
        """Whether pulls of messages are in progress, so that the pool must not close this client."""
        return self._reading > 0

    def close(self) -> None:
        """Close the connections to the cluster."""
        self._reader.close()

    def topics(self) -> Sequence[str]:
        """Return all topics of the namespace, and the system topics, that the nameserver knows."""
        return self._again(self._reader.topics)

    def brokers(self) -> Collection[str]:
        """Return the names of the brokers that are registered at the nameserver."""
        return self._again(self._reader.brokers)

    def missing_brokers(self) -> Sequence[MissingBroker]:
        """Return offline brokers that a CometMQ nameserver remembers; empty with RocketMQ's nameserver."""
        return self._again(self._reader.missing_brokers)

    def ordered_queues(self, topics: Sequence[str]) -> Sequence[MessageQueue]:
        """Return the queues in the topics' order configurations, from the routes that `queues` last fetched."""
        return [queue for topic in topics for queue in self._ordered.get(topic, ())]

    def queues(
        self, topics: Sequence[str]
    ) -> Mapping[str, Sequence[MessageQueue] | TopicNotFound]:
        """Fetch the readable queues of each topic from the nameserver; a topic without a route gets a TopicNotFound."""
        found = self._again(partial(self._reader.queues, topics))
        self._ordered.update(
            (topic, each.ordered)
            for topic, each in found.items()
            if isinstance(each, TopicQueues)
        )
        return {
            topic: each.readable if isinstance(each, TopicQueues) else each
            for topic, each in found.items()
        }

    def min_offsets(self, queues: Sequence[MessageQueue]) -> Answers[int]:
        """Return by queue the offset of its oldest message, or the error of a broker that cannot be reached."""
        return self._of_each(self._reader.min_offsets, queues, self._settings.retries)

    def max_offsets(
        self, queues: Sequence[MessageQueue], *, patient: bool = False
    ) -> Answers[int]:
        """Return by queue the end offset, or the error of an unreachable broker; `patient`: ask a silent one again."""
        retries = self._settings.retries if patient else 0
        return self._of_each(self._reader.max_offsets, queues, retries)

    def offsets_by_time(self, times_ms: Mapping[MessageQueue, int]) -> Answers[int]:
        """Return by queue the offset of the first message stored at or after the queue's time, or else usually its end.

        Brokers of 4.x return an offset near the time. A queue whose broker cannot be reached gets an error.
        """
        return self._of_each(
            lambda queues: self._reader.offsets_by_time(
                {each: times_ms[each] for each in queues}
            ),
            times_ms,
            self._settings.retries,
        )

    def committed_offsets(self, queues: Sequence[MessageQueue]) -> Answers[int | None]:
        """Return by queue the group's committed offset, None without one, or an error.

        Brokers report 0 instead of None for a queue whose first message counts as in memory.
        """
        return self._of_each(self._reader.committed_offsets, queues, self._settings.retries)

    def mean_sizes(self, starts: Mapping[MessageQueue, int]) -> Answers[float | None]:
        """Return by queue the mean bytes of up to 32 records from an offset, None if a pull returns none, or an error."""

        def ask(queues: Collection[MessageQueue]) -> dict[MessageQueue, Size | CometError]:
            ranges = [(each, starts[each], starts[each] + SIZED_ROWS) for each in queues]
            pulls = self._reader.read_first(ranges, max_count=SIZED_ROWS)
            return dict(zip(queues, map(_mean_size, pulls), strict=True))

        return self._of_each(ask, starts, self._settings.retries)

    def _of_each(
        self,
        ask: Callable[[Collection[MessageQueue]], Mapping[MessageQueue, Value | CometError]],
        queues: Iterable[MessageQueue],
        retries: int,
    ) -> Answers[Value]:
        """Ask about many queues, and up to `retries` times again about those with a NetError.

        A remaining NetError, or BrokerNotFound, is the answer for its queue; any other CometError is raised.
        """
        found: dict[MessageQueue, Value | CometError] = {}
        left = list(queues)
        for tries_left in range(retries, -1, -1):
            found.update(ask(left))
            left = [each for each in left if isinstance(found[each], NetError)]
            if not left:
                break
            if tries_left:
                sleep(self._settings.retry_interval_ms / 1000)
        answers: dict[MessageQueue, Value | NetError | BrokerNotFound] = {}
        for queue, answer in found.items():
            if isinstance(answer, CometError) and not isinstance(
                answer, NetError | BrokerNotFound
            ):
                raise answer
            answers[queue] = answer
        return answers

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit the group's offsets at all reachable brokers; then raise the first error of a broker that failed."""
        self._reader.commit(offsets)

    def indexed(self, topic: str, key: str, *, is_id: bool) -> IndexedMessages | None:
        """Return the messages (queue and offset) indexed for a key; None for none, too many, or if a broker cannot answer.

        Raises CodecError if an answer is invalid, TopicNotFound without a route.
        """
        try:
            return self._reader.indexed(topic, key, is_id=is_id)
        except (NetError, BrokerNotFound, BrokerRefused) as error:
            log.warning("The index cannot be used, so all messages are read: %s", error)
            return None

    def first_pulls(
        self, asked: Sequence[tuple[MessageQueue, int, int]], plan: PullPlan
    ) -> Sequence[RawPull | None]:
        """Return the first pull answer for each (queue, start, end), requested at once; None for an error or no answer."""
        self._reading += 1
        try:
            first = self._reader.read_first(
                asked,
                max_count=plan.rows,
                expression=plan.expression,
                read_from=plan.read_from,
            )
        finally:
            self._reading -= 1
        return [None if isinstance(each, CometError) else each for each in first]

    def pulls(
        self, queue: MessageQueue, *, start: int, end: int, plan: PullPlan
    ) -> Iterator[RawPull]:
        """Yield the pull answers for [start, end) or up to the queue's end; may stop before, at deleted messages."""
        self._reading += 1
        try:
            yield from self._reader.read(
                queue,
                start,
                end,
                max_count=plan.rows,
                depth=plan.depth,
                expression=plan.expression,
                read_from=plan.read_from,
            )
        finally:
            self._reading -= 1

    def _again(self, ask: Callable[[], Answer]) -> Answer:
        """Return the result of `ask`; after a NetError retry up to `fetchOffset.numRetries` times, then raise the last one."""
        for _ in range(self._settings.retries):
            try:
                return ask()
            except NetError:
                sleep(self._settings.retry_interval_ms / 1000)
        return ask()


def _mean_size(pull: RawPull | CometError | None) -> Size | CometError:
    if not isinstance(pull, RawPull):
        return pull
    return len(pull.body) / len(record_starts(pull.body)) if pull.body else None


def source_cluster(settings: SourceSettings) -> SourceCluster:
    """Return a started client of a read's cluster; tasks of this process with equal settings for it share it."""
    retries = settings.retries, settings.retry_interval_ms
    key = (
        "source", settings.name_servers, settings.namespace, settings.group, retries, settings.credentials, settings.tls,
    )  # fmt: skip
    return shared(key, lambda: SourceCluster(settings), settings.pool)
