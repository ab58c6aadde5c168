"""One queue of a topic on one broker: the unit of order, of storage and of consumption."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class MessageQueue:
    """A queue, ordered by topic, broker and number, as every client must order them to agree.

    Attributes:
        topic: the topic's name.
        broker_name: the broker group that holds it, not an address.
        queue_id: 0 and up within the topic on that broker.
    """

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        """`topic@broker:queue`, short enough for a log line."""
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"
