"""What the source needs of a cluster, and no more.

Everything above this line is Spark and arithmetic; everything below is the client. Hot calls are
raw (docs/design/0005-spark-sources.md): a pull gives the record bytes of an answer, and no object is
made for a message.

Next: cometmq.spark.source.client_cluster
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from cometmq.client.results import RawPull
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import ALL


@dataclass(frozen=True)
class PullPlan:
    """How a range is pulled.

    Attributes:
        rows: messages in one request.
        depth: requests under way at once.
        expression: the tags that the broker filters by; "*" for everything.
    """

    rows: int
    depth: int
    expression: str = ALL

    @property
    def is_all(self) -> bool:
        """Whether the broker leaves out nothing."""
        return self.expression.strip() in ("", ALL)


class SourceCluster(Protocol):
    """A cluster as the source sees it. Every call may raise `CometError`."""

    def topics(self) -> Sequence[str]:
        """All topics, the system's too."""

    def brokers(self) -> Collection[str]:
        """The names of the brokers that are registered now."""

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        """The readable queues of a topic.

        Raises:
            TopicNotFound: no nameserver knows it.
        """

    def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that the queue still holds."""

    def max_offset(self, queue: MessageQueue) -> int:
        """The next offset that the queue will write."""

    def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The first message stored at or after a time; the maximum when there is none."""

    def committed_offset(self, queue: MessageQueue) -> int | None:
        """What the source's group has committed, or None."""

    def pulls(
        self, queue: MessageQueue, *, start: int, end: int, plan: PullPlan
    ) -> Iterator[RawPull]:
        """The answers for [start, end) in order, several under way at once.

        Ends behind the first answer that is neither FOUND nor NO_MATCHED_MESSAGE, or when `end`
        is reached.
        """
