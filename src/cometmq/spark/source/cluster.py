"""The interface of a cluster that the source needs.

Everything above this line is Spark and arithmetic; everything below is the client. Hot calls are
raw (docs/design/0021-spark-source.md): a pull gives the record bytes of an answer, and no object is
made for a message.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from cometmq.client import ALL, Filter, IndexedMessages, MissingBroker, RawPull, ReadFrom
from cometmq.model.errors import BrokerNotFound, NetError, TopicNotFound
from cometmq.model.queue import MessageQueue


@dataclass(frozen=True)
class PullPlan:
    """The way a range is pulled.

    Attributes:
        rows: messages in one request.
        depth: requests under way at once.
        expression: what the broker filters by.
        read_from: who is asked.
    """

    rows: int
    depth: int
    expression: Filter = ALL
    read_from: ReadFrom = ReadFrom.SUGGESTED

    @property
    def is_all(self) -> bool:
        """Whether the broker leaves out nothing."""
        return self.expression == ALL


Value = TypeVar("Value")

# What is said about many queues, asked side by side, or why the broker of one cannot be asked.
Answers = Mapping[MessageQueue, Value | NetError | BrokerNotFound]


def all_known(answers: Answers[Value]) -> dict[MessageQueue, Value]:
    """The answers, where there is one for each queue.

    Raises:
        NetError, BrokerNotFound: the first that stands in the place of one.
    """
    known: dict[MessageQueue, Value] = {}
    for queue, answer in answers.items():
        if isinstance(answer, NetError | BrokerNotFound):
            raise answer
        known[queue] = answer
    return known


class SourceCluster(Protocol):
    """A cluster as the source sees it. Every call may raise `CometError`.

    What is asked about many queues is asked side by side: a thousand of them take two round trips.
    """

    def topics(self) -> Sequence[str]:
        """All topics, the system's too."""

    def brokers(self) -> Collection[str]:
        """The names of the brokers that are registered now."""

    def missing_brokers(self) -> Sequence[MissingBroker]:
        """Brokers that the nameserver remembers and that are away; none where it does not tell."""

    def ordered_queues(self, topics: Sequence[str]) -> Sequence[MessageQueue]:
        """The queues that order configurations of topics name, of the routes asked for last."""

    def queues(
        self, topics: Sequence[str]
    ) -> Mapping[str, Sequence[MessageQueue] | TopicNotFound]:
        """The readable queues of each topic, as the nameserver has them now."""

    def min_offsets(self, queues: Sequence[MessageQueue]) -> Answers[int]:
        """The first offset that each queue still holds."""

    def max_offsets(
        self, queues: Sequence[MessageQueue], *, patient: bool = False
    ) -> Answers[int]:
        """The next offset that each queue will write; `patient`: asked again where nobody answers."""

    def offsets_by_time(self, times_ms: Mapping[MessageQueue, int]) -> Answers[int]:
        """The first message of each queue stored at or after its time; its end where there is none."""

    def committed_offsets(self, queues: Sequence[MessageQueue]) -> Answers[int | None]:
        """The offset that the source's group has committed in each queue, or None."""

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Store where the source's group goes on, for all queues whose brokers can be reached.

        Raises:
            CometError: what the first broker said that did not store it.
        """

    def indexed(self, topic: str, key: str, *, is_id: bool) -> IndexedMessages | None:
        """The messages that the index has under a key, or under a message's own id.

        None where it knows nothing, or more than it tells at once.
        """

    def mean_sizes(self, starts: Mapping[MessageQueue, int]) -> Answers[float | None]:
        """Bytes of a stored record, of some messages of each queue from its start on; None where there is none."""

    def first_pulls(
        self, asked: Sequence[tuple[MessageQueue, int, int]], plan: PullPlan
    ) -> Sequence[RawPull | None]:
        """The first answer of `pulls` for each queue, start and end, all asked at once.

        None where it did not come: `pulls` has the word.
        """

    def pulls(
        self, queue: MessageQueue, *, start: int, end: int, plan: PullPlan
    ) -> Iterator[RawPull]:
        """The answers for [start, end) in order, several under way at once.

        Ends when `end` is reached, or where there is nothing more now: at the queue's end, or at a gap, whose
        answer says where to go on.
        """
