"""Half messages that a transactional Spark write has stored, and the key of their batch."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from cometmq import SendResult
from cometmq.admin import HalfMessage


class BatchKey(NamedTuple):
    """Key of a transactional batch: Spark's query id and batch id, or the name of a batch write and 0."""

    query: str
    batch: int

    def __str__(self) -> str:
        return f"{self.query}/{self.batch}"

    @classmethod
    def read(cls, text: str) -> "BatchKey":
        """Parse a key from the property SPARK_RUN, `query/batch`; raise ValueError if the batch is not a number."""
        query, _, batch = text.rpartition("/")
        return cls(query, int(batch))


@dataclass
class HalfMessages:
    """Half messages of one topic on one broker; the three lists have one entry per message.

    Attributes:
        broker: Name of the broker.
        topic: Topic in which they appear once committed.
        ids: Unique message ids.
        queue_offsets: Offsets in the queue of half messages.
        log_offsets: Physical offsets of their records, bytes.
    """

    broker: str
    topic: str
    ids: list[str] = field(default_factory=list)
    queue_offsets: list[int] = field(default_factory=list)
    log_offsets: list[int] = field(default_factory=list)

    def add(self, result: SendResult) -> None:
        """Add a half message by the result of its send; its broker and topic must be those of the others."""
        half = HalfMessage.of(result)
        self.ids.append(half.message_id)
        self.queue_offsets.append(half.queue_offset)
        self.log_offsets.append(half.commitlog_offset)

    def messages(self) -> list[HalfMessage]:
        """Return the half messages as objects of the client (`HalfMessage`)."""
        of_each = zip(self.ids, self.queue_offsets, self.log_offsets, strict=True)
        return [
            HalfMessage(message_id, self.topic, self.broker, queue_offset, log_offset)
            for message_id, queue_offset, log_offset in of_each
        ]

    def only(self, indexes: Iterable[int]) -> "HalfMessages":
        """Return the half messages at the given indexes."""
        chosen = list(indexes)
        return HalfMessages(
            self.broker,
            self.topic,
            [self.ids[index] for index in chosen],
            [self.queue_offsets[index] for index in chosen],
            [self.log_offsets[index] for index in chosen],
        )


def count_of(half_messages: Iterable[HalfMessages]) -> int:
    """Return the number of half messages in all entries, each of which holds those of one topic on one broker."""
    return sum(len(each.ids) for each in half_messages)
