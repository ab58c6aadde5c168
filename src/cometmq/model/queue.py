"""A queue of a topic on one broker group, in which messages are ordered by their offsets."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class MessageQueue:
    """A queue, ordered by topic, broker name and number; all clients need the same order to agree in a rebalance.

    Attributes:
        topic: Name of the topic.
        broker_name: Name of the broker group, not an address.
        queue_id: Number of the queue within the topic on that broker, from 0; -1: any queue (pop).
    """

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        """Return `topic@broker:queue`, for logs."""
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"
