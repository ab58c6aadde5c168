"""The one table of a store's queues, of whatever kind they are.

    plain    20 bytes a message; of a Java broker's some have their tags codes elsewhere (`extended_queues`)
    batch    46 bytes a record (`batch_queues`)

A reader finds a queue, or finds that there is none: it makes nothing. Only who writes opens one. Who
waits for the first message of a queue gets what that queue will be, and nobody else finds it.
"""

import logging
from collections.abc import Callable, Iterator
from weakref import WeakValueDictionary

from cometmq.model.errors import RecordIllegal
from cometmq.model.names import length_fault
from cometmq.model.text import plural
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.stored_record import is_directory_name

logger = logging.getLogger(__name__)


def _nothing(_queue: ConsumeQueue) -> None:
    """Nobody keeps anything of a queue that is put aside."""


class QueueTable:
    """The queues by topic and number; a number of a topic has one queue.

    Attributes:
        on_set_aside: told of a plain queue that a batch queue takes the place of.
    """

    def __init__(self) -> None:
        self.on_set_aside: Callable[[ConsumeQueue], None] = _nothing
        self._topics: dict[str, dict[int, ConsumeQueue]] = {}
        # As many as somebody keeps, who waits: the broker bounds the number of these.
        self._awaited: WeakValueDictionary[tuple[str, int], ConsumeQueue] = (
            WeakValueDictionary()
        )

    def __iter__(self) -> Iterator[ConsumeQueue]:
        # Of copies: any thread may go over them while the owner opens others.
        for queues in list(self._topics.values()):
            yield from list(queues.values())

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """A queue of any kind; None where nothing was ever written."""
        queues = self._topics.get(topic)
        return queues.get(queue_id) if queues is not None else None

    def queues_of(self, topic: str) -> dict[int, ConsumeQueue] | None:
        """A topic's queues by their numbers, as they are now and later; None where it has none."""
        return self._topics.get(topic)

    def topics(self) -> list[str]:
        """Topics that have a queue."""
        return list(self._topics)

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        """The queues of a topic."""
        return list(self._topics.get(topic, {}).values())

    def open_for_append(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The plain queue of this number, for its writer; a new one has no file until it has a message.

        Raises:
            RecordIllegal: there can be no such queue, or it is a batch queue.
        """
        queue = self.find(topic, queue_id)
        if queue is None:
            if not is_directory_name(topic):
                raise RecordIllegal(
                    length_fault(topic) or f"a topic {topic!r:.300} can have no directory"
                )
            queue = self._awaited.pop((topic, queue_id), None) or ConsumeQueue(topic, queue_id)
            self.add(queue)
        elif queue.is_batch:
            raise RecordIllegal(
                f"queue {queue_id} of topic[{topic}] is a batch queue (queue.type=BatchCQ), which this "
                "broker reads and does not write"
            )
        return queue

    def add(self, queue: ConsumeQueue) -> None:
        """Have a queue found from now on.

        A batch queue takes the place of a plain one, which would hide its messages: older brokers made
        such. Its own messages are in the log alone then.
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
        """Have a queue found no more; whoever keeps it must ask for it anew."""
        queue.deleted = True
        queues = self._topics[queue.topic]
        assert queues[queue.queue_id] is queue
        del queues[queue.queue_id]
        if not queues:
            del self._topics[queue.topic]

    # --- queues that are not there yet

    def awaited(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The future queue of a name without one; nobody finds it before `open_for_append` has made it.

        It lasts as long as somebody keeps it.
        """
        assert self.find(topic, queue_id) is None
        queue = self._awaited.get((topic, queue_id))
        if queue is None:
            queue = self._awaited[topic, queue_id] = ConsumeQueue(topic, queue_id)
        return queue

    def end_waiting(self, topic: str) -> None:
        """A topic is deleted: who waits for its queues has nothing to wait for."""
        for key in [key for key in self._awaited if key[0] == topic]:
            self._let_go(self._awaited.pop(key, None))

    def _let_go(self, queue: ConsumeQueue | None) -> None:
        if queue is not None:
            queue.deleted = True


def say_set_aside(queue: ConsumeQueue) -> None:
    """Say that a plain queue is not found, for it would hide a batch queue."""
    logger.warning(
        "%r is put aside, for it hid the batch queue of its number: in the log alone: %d %s",
        queue,
        queue.max_offset - queue.min_offset,
        plural(queue.max_offset - queue.min_offset, "message"),
    )
