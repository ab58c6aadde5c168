"""Interface of the Spark source to a cluster; a pull returns record bytes (docs/design/0021-spark-source.md)."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from cometmq import ALL, Filter
from cometmq.admin import MissingBroker
from cometmq.connect import IndexedMessages, RawPull, ReadFrom
from cometmq.model.errors import BrokerNotFound, NetError, TopicNotFound
from cometmq.model.queue import MessageQueue


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


class SourceCluster(Protocol):
    """Interface of the Spark source to a cluster, which queries many queues at once; a call may raise CometError.

    In results by queue, only an unreachable broker is an error of its queues; a refusal or invalid answer is raised.
    """

    def topics(self) -> Sequence[str]:
        """Return all topics of the namespace, including system topics."""

    def brokers(self) -> Collection[str]:
        """Return the names of the brokers that are registered at the nameserver."""

    def missing_brokers(self) -> Sequence[MissingBroker]:
        """Return offline brokers that the nameserver remembers; empty if it does not support this."""

    def ordered_queues(self, topics: Sequence[str]) -> Sequence[MessageQueue]:
        """Return the queues in the topics' order configurations, from the routes that `queues` last fetched."""

    def queues(
        self, topics: Sequence[str]
    ) -> Mapping[str, Sequence[MessageQueue] | TopicNotFound]:
        """Return the readable queues of each topic, as the nameserver has them now, or TopicNotFound."""

    def min_offsets(self, queues: Sequence[MessageQueue]) -> Answers[int]:
        """Return by queue the offset of its oldest message, or the error of a broker that cannot be reached."""

    def max_offsets(
        self, queues: Sequence[MessageQueue], *, patient: bool = False
    ) -> Answers[int]:
        """Return by queue the end offset, or the error of an unreachable broker; `patient`: ask a silent one again."""

    def offsets_by_time(self, times_ms: Mapping[MessageQueue, int]) -> Answers[int]:
        """Return by queue the offset of the first message stored at or after the queue's time, or else usually its end.

        A queue whose broker cannot be reached gets an error.
        """

    def committed_offsets(self, queues: Sequence[MessageQueue]) -> Answers[int | None]:
        """Return by queue the group's committed offset or an error; without one None, or 0 as brokers do in a young queue."""

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit the group's offsets at all reachable brokers; then raise the first error of a broker that failed."""

    def indexed(self, topic: str, key: str, *, is_id: bool) -> IndexedMessages | None:
        """Return the queues and offsets of messages that the brokers' indexes have for a key, or a message id (`is_id`).

        None for none or too many, or if a broker cannot answer.
        """

    def mean_sizes(self, starts: Mapping[MessageQueue, int]) -> Answers[float | None]:
        """Return by queue the mean bytes of the first records from an offset, None if a pull returns none, or an error."""

    def first_pulls(
        self, asked: Sequence[tuple[MessageQueue, int, int]], plan: PullPlan
    ) -> Sequence[RawPull | None]:
        """Return the first answer of `pulls` for each (queue, start, end), requested at once; None without one."""

    def pulls(
        self, queue: MessageQueue, *, start: int, end: int, plan: PullPlan
    ) -> Iterator[RawPull]:
        """Iterate over the pull answers for [start, end) in order, with up to `plan.depth` requests in flight.

        Ends at `end` or at the queue's end. It may also end at deleted messages, usually with an answer without
        messages that has the offset to continue from.
        """
