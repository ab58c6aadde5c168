"""Counts messages that clients do not read, because their queue number is beyond the topic's read queues."""

from collections import Counter
from collections.abc import Iterable, Mapping

from cometmq.broker.parts import Parts
from cometmq.codec.bodies.consumer_offset import TOPIC_GROUP_SEPARATOR
from cometmq.model.topic import TopicConfig
from cometmq.steps.steps import Steps, elsewhere
from cometmq.store.consume_queue import ConsumeQueue


class UnreadQueues:
    """A search for messages in queues that clients do not read, because their topic has fewer read queues."""

    def __init__(self, parts: Parts) -> None:
        self._store = parts.store
        self._topics = parts.topics
        self._offsets = parts.offsets

    def counts(self) -> Steps[Mapping[str, int]]:
        """Return the number of messages in unread queues per topic, without those that all groups of it have consumed.

        System topics, and topics without such messages, are left out.
        """
        topics = self._topics.table().topics
        behind = yield from elsewhere(lambda: self._behind(topics.values()))
        if not behind:
            return {}
        places = self._offsets.places()
        return (yield from elsewhere(lambda: _unread(behind, places)))

    def _behind(self, topics: Iterable[TopicConfig]) -> list[ConsumeQueue]:
        """Return the queues that have messages but that clients do not read. Callable in any thread.

        The id of such a queue is not less than the number of read queues of its topic (readQueueNums). Queues of system
        topics are left out.
        """
        return [
            queue
            for config in topics
            for queue in self._store.queues_of(config.name)
            if queue.queue_id >= config.read_queues
            and queue.max_offset > queue.min_offset
            and not self._topics.is_system(config.name)
        ]


def _unread(
    queues: Iterable[ConsumeQueue], places: Iterable[tuple[str, Mapping[int, int]]]
) -> Mapping[str, int]:
    """Count by topic the messages that the slowest group in each queue has not consumed (without a group, all of them)."""
    names = {queue.topic for queue in queues}
    offsets: dict[str, list[Mapping[int, int]]] = {}
    for key, by_queue in places:
        topic = key.partition(TOPIC_GROUP_SEPARATOR)[0]
        if topic in names:
            offsets.setdefault(topic, []).append(by_queue)
    counts: Counter[str] = Counter()
    for queue in queues:
        known = [each.get(queue.queue_id, 0) for each in offsets.get(queue.topic, ())]
        consumed = max(min(known, default=0), queue.min_offset)
        if queue.max_offset > consumed:
            counts[queue.topic] += queue.max_offset - consumed
    return counts
