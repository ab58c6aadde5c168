"""Half messages of a batch: where they lie, and who commits them or rolls them back."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from cometmq.client import HalfMessage, SendResult, TransactionState
from cometmq.model.errors import CometError


class BatchKey(NamedTuple):
    """A micro-batch of a query, or a batch write.

    Attributes:
        query: Spark's query id, or the name of the write.
        batch: Spark's batch id; 0 for a batch write.
    """

    query: str
    batch: int

    def __str__(self) -> str:
        """The key as the property SPARK_RUN has it."""
        return f"{self.query}/{self.batch}"

    @classmethod
    def read(cls, text: str) -> "BatchKey":
        """Read a key from the property SPARK_RUN.

        Raises:
            ValueError: it is something else.
        """
        query, _, batch = text.rpartition("/")
        return cls(query, int(batch))


@dataclass
class HalfMessages:
    """Half messages of one topic on one broker; the three lists have one entry for each.

    Attributes:
        broker: the broker's name.
        topic: where they go when they are committed.
        ids: their unique ids.
        queue_offsets: in the queue of half messages.
        log_offsets: of their records, bytes.
    """

    broker: str
    topic: str
    ids: list[str] = field(default_factory=list)
    queue_offsets: list[int] = field(default_factory=list)
    log_offsets: list[int] = field(default_factory=list)

    def add(self, result: SendResult) -> None:
        """Add one more, as its broker answered."""
        half = HalfMessage.of(result)
        self.ids.append(half.message_id)
        self.queue_offsets.append(half.queue_offset)
        self.log_offsets.append(half.commitlog_offset)

    def messages(self) -> list[HalfMessage]:
        """The half messages one by one, as the client takes them."""
        of_each = zip(self.ids, self.queue_offsets, self.log_offsets, strict=True)
        return [
            HalfMessage(message_id, self.topic, self.broker, queue_offset, log_offset)
            for message_id, queue_offset, log_offset in of_each
        ]

    def only(self, indexes: Iterable[int]) -> "HalfMessages":
        """The half messages at some indexes."""
        chosen = list(indexes)
        return HalfMessages(
            self.broker,
            self.topic,
            [self.ids[index] for index in chosen],
            [self.queue_offsets[index] for index in chosen],
            [self.log_offsets[index] for index in chosen],
        )


def count_of(half_messages: Iterable[HalfMessages]) -> int:
    """The number of half messages, on all brokers together."""
    return sum(len(each.ids) for each in half_messages)


class TransactionResolver(Protocol):
    """Commits half messages or rolls them back, and looks which are committed: `EncodedProducer` of the client."""

    def end(
        self,
        half_messages: Sequence[HalfMessage],
        state: TransactionState,
        *,
        late: bool = False,
    ) -> Sequence[CometError | None]:
        """Commit or roll back; nothing for each, or what went wrong.

        Args:
            half_messages: of the resolver's group.
            state: COMMIT or ROLLBACK.
            late: as if a check had asked, so that no broker minds how old they are.
        """

    def committed(self, half_messages: Sequence[HalfMessage]) -> Sequence[bool]:
        """Whether each is there as a message that consumers see.

        Raises:
            CometError: its broker cannot be asked.
        """
