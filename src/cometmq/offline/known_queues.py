"""Queues of a store, by which a reader recognizes the records of deleted topics (`lives.py`).

The module imports nothing of the store: Spark starts several new processes per query, and each of them needs these
types, but only one reads the queue files.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from cometmq.offline.columns.window import Flags, Longs


class QueueId(NamedTuple):
    """A queue by topic and queue id."""

    topic: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.queue_id}"


class FirstEntry(NamedTuple):
    """A queue's oldest entry, whose record must be in the log: its queue offset, and the record's physical offset."""

    offset: int
    place: int

    def outlives(self, offset: int, place: int) -> bool:
        """Return whether a record of the queue must be of an earlier, deleted queue of its name.

        True if the record's queue offset is not before this entry's, but its physical offset (`place`) is.
        """
        return offset >= self.offset and place < self.place


@dataclass(frozen=True)
class KnownQueues:
    """The queues of a store by its files or log, to recognize records of deleted topics (dead records); picklable.

    Attributes:
        start: Physical offset at which the log began, or 0.
        dispatched: Physical offset; records from `start` to it in no queue of `firsts` or `batch_topics` are dead; 0: unknown.
        firsts: Oldest entry of each queue that has one.
        batch_topics: Topics with batch queues, whose queues are not known here.
    """

    start: int = 0
    dispatched: int = 0
    firsts: Mapping[QueueId, FirstEntry] = field(default_factory=dict)
    batch_topics: frozenset[str] = frozenset()

    def is_dead(self, topic: str, queue_id: int, offset: int, place: int) -> bool:
        """Return whether a record at these queue and physical offsets (`place`) is known to be of a deleted topic."""
        first = self.firsts.get(QueueId(topic, queue_id))
        if first is None:
            is_known = topic not in self.batch_topics
            return is_known and self.start <= place < self.dispatched
        return first.outlives(offset, place)

    def may_be_dead(self, topic: str, queue_id: int, place: int) -> bool:
        """Return whether a queue may have a record at a physical offset `place` or after it that is known to be dead."""
        first = self.firsts.get(QueueId(topic, queue_id))
        if first is not None:
            return place < first.place
        return topic not in self.batch_topics and place < self.dispatched

    def are_dead(self, topic: str, queue_id: int, offsets: "Longs", places: "Longs") -> "Flags":
        """Return a mask of the records of one queue that are known to be of a deleted topic; see `is_dead`."""
        first = self.firsts.get(QueueId(topic, queue_id))
        if first is not None:
            return (offsets >= first.offset) & (places < first.place)
        is_known = topic not in self.batch_topics
        return (places >= self.start) & (places < self.dispatched) & is_known

    def of_topics(self, topics: Container[str]) -> "KnownQueues":
        """Return only the queues of some topics; the result must not be used for records of other topics."""
        firsts = {queue: first for queue, first in self.firsts.items() if queue.topic in topics}
        return replace(self, firsts=firsts)

    def to_json(self) -> dict[str, object]:
        """Return the queues as a dict for JSON, as an archive stores them."""
        queues: dict[str, dict[str, list[int]]] = {}
        for (topic, queue_id), first in self.firsts.items():
            queues.setdefault(topic, {})[str(queue_id)] = list(first)
        return {
            "start": self.start,
            "dispatched": self.dispatched,
            "queues": queues,
            "batchTopics": sorted(self.batch_topics),
        }

    @classmethod
    def of_json(cls, found: Any) -> "KnownQueues":
        """Create the queues from the dict of `to_json`.

        May raise KeyError, TypeError, ValueError or AttributeError if it is invalid.
        """
        firsts = {
            QueueId(topic, int(number)): FirstEntry(*first)
            for topic, numbers in found["queues"].items()
            for number, first in numbers.items()
        }
        batch_topics = frozenset(found["batchTopics"])
        return cls(int(found["start"]), int(found["dispatched"]), firsts, batch_topics)
