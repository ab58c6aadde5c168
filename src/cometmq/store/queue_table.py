"""Table of all queues of a store, whatever their kind.

    standard    20 bytes an entry; in some of a Java broker's, the tags codes are elsewhere (`extended_queues`)
    batch       46 bytes an entry, one for several messages (`batch_queues`)

Readers only look queues up; loading and writers create them. A reader that waits for the first message of a missing
queue gets an object that this queue normally uses later; `find` does not return it until then.
"""

import logging
from collections.abc import Callable, Iterator
from weakref import WeakValueDictionary

from cometmq.model.errors import RecordIllegal
from cometmq.model.names import length_fault
from cometmq.model.text import in_quotes, plural
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.stored_record import is_directory_name

logger = logging.getLogger(__name__)


def _nothing(_queue: ConsumeQueue) -> None:
    """Do nothing; the default of `on_set_aside`."""


class QueueTable:
    """Queues by topic and queue id; `on_set_aside` is called with a standard queue that a batch queue replaces."""

    def __init__(self) -> None:
        self.on_set_aside: Callable[[ConsumeQueue], None] = _nothing
        self._topics: dict[str, dict[int, ConsumeQueue]] = {}
        # As many as there are waiting readers keeping them, which the broker limits.
        self._awaited: WeakValueDictionary[tuple[str, int], ConsumeQueue] = (
            WeakValueDictionary()
        )

    def __iter__(self) -> Iterator[ConsumeQueue]:
        # Iterates over copies, because any thread may do so while the owner adds queues.
        for queues in list(self._topics.values()):
            yield from list(queues.values())

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue of any kind; None if it does not exist."""
        queues = self._topics.get(topic)
        return queues.get(queue_id) if queues is not None else None

    def queues_of(self, topic: str) -> dict[int, ConsumeQueue] | None:
        """Return the live dict of a topic's queues by id; None if the topic has none."""
        return self._topics.get(topic)

    def topics(self) -> list[str]:
        """Return the names of the topics with queues of any kind."""
        return list(self._topics)

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        """Return a list of the queues of a topic."""
        return list(self._topics.get(topic, {}).values())

    def open_for_append(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return the queue to append to, creating it if needed, without a file.

        The caller must not use the object any more once its `deleted` is set.

        Raises:
            RecordIllegal: The topic cannot have a directory, or the queue is a batch queue.
        """
        queue = self.find(topic, queue_id)
        if queue is None:
            if not is_directory_name(topic):
                raise RecordIllegal(
                    length_fault(topic)
                    or f"topic {in_quotes(topic, 300)} cannot have a directory"
                )
            queue = self._awaited.pop((topic, queue_id), None) or ConsumeQueue(topic, queue_id)
            self.add(queue)
        elif queue.is_batch:
            raise RecordIllegal(
                f"queue {queue_id} of topic[{topic}] is a batch queue (queue.type=BatchCQ), which this "
                "broker can read but not write"
            )
        return queue

    def add(self, queue: ConsumeQueue) -> None:
        """Add a queue to the table.

        A batch queue replaces a standard one of its id, which an older broker created by mistake and which would hide
        its messages. Messages of the replaced queue can then only be found in the log.
        """
        queues = self._topics.setdefault(queue.topic, {})
        hiding = queues.get(queue.queue_id)
        queues[queue.queue_id] = queue
        if hiding is not None:
            assert queue.is_batch
            assert not hiding.is_batch
            say_set_aside(hiding)
            self.on_set_aside(hiding)
        if queue.is_batch:
            self._let_go(self._awaited.pop((queue.topic, queue.queue_id), None))

    def remove(self, queue: ConsumeQueue) -> None:
        """Remove a queue and mark it as deleted, so that holders of the object look it up again."""
        queue.deleted = True
        queues = self._topics[queue.topic]
        assert queues[queue.queue_id] is queue
        del queues[queue.queue_id]
        if not queues:
            del self._topics[queue.topic]

    # --- queues that are not there yet

    def awaited(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return an object for a missing queue; a standard queue created later uses it while a caller refers to it."""
        assert self.find(topic, queue_id) is None
        queue = self._awaited.get((topic, queue_id))
        if queue is None:
            queue = self._awaited[topic, queue_id] = ConsumeQueue(topic, queue_id)
        return queue

    def end_waiting(self, topic: str) -> None:
        """Mark the objects that readers hold for missing queues of a deleted topic as deleted."""
        for key in [key for key in self._awaited if key[0] == topic]:
            self._let_go(self._awaited.pop(key, None))

    def _let_go(self, queue: ConsumeQueue | None) -> None:
        if queue is not None:
            queue.deleted = True


def say_set_aside(queue: ConsumeQueue) -> None:
    """Log that a standard queue is no longer used because a batch queue has the same id."""
    logger.warning(
        "%s was moved away, because it hid the batch queue with the same id; only the log still has its %d %s",
        queue,
        queue.max_offset - queue.min_offset,
        plural(queue.max_offset - queue.min_offset, "message"),
    )
