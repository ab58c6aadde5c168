"""Looks into queues for consoles: their raw entries, and messages that no client reads because of the queue's number.

Follows AdminBrokerProcessor.queryConsumeQueue of RocketMQ 5.3.3.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial

from cometmq.broker.parts import Parts
from cometmq.codec.bodies.consumer_offset import TOPIC_GROUP_SEPARATOR
from cometmq.codec.bodies.queue_entries import QueueLook
from cometmq.codec.headers.console import QueueEntriesRequest
from cometmq.codec.queue_entry import QueueEntry
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.topic import TopicConfig
from cometmq.steps.steps import Steps, elsewhere
from cometmq.store.consume_queue import ConsumeQueue

_COUNT_MAX = 10_000  # 200 kB of entries are 1 MB as JSON; Java has no limit.


class QueueEntries:
    """Looks up entries of a queue, with its bounds and a group's subscription to the topic."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def look(self, request: QueueEntriesRequest) -> Steps[QueueLook]:
        """Return a queue's bounds, requested entries (10,000 at most), and a group's subscription to the topic, if any.

        Raises:
            RequestError, FileNotFoundError: There is no such queue (SYSTEM_ERROR), or it lacks the file of an entry.
        """
        entries: list[QueueEntry] = []
        while True:
            queue = self._queue(request)
            if not _has(queue, request.index):
                break
            count = min(max(request.count, 0), _COUNT_MAX)
            read = partial(self._parts.store.entries, queue, request.index, count)
            try:
                entries = yield from elsewhere(read)
                break
            except FileNotFoundError:
                # The topic or its oldest files may have been deleted meanwhile; otherwise the queue is damaged.
                if self._queue(request) is queue and _has(queue, request.index):
                    raise
        topic, group = request.topic, request.consumer_group
        wanted = None if group is None else self._parts.members.subscription(group, topic)
        return QueueLook(queue.min_offset, queue.max_offset, entries, topic, group, wanted)

    def _queue(self, request: QueueEntriesRequest) -> ConsumeQueue:
        queue = self._parts.store.queue(request.topic, request.queue_id)
        if queue is None:
            name = f"{request.queue_id}@{request.topic}"
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"{name} is not exist!")
        return queue


def _has(queue: ConsumeQueue, index: int) -> bool:
    return queue.min_offset <= index < queue.max_offset


class UnreadQueues:
    """A search for messages in queues that clients do not read, because their topic has fewer read queues."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def counts(self) -> Steps[Mapping[str, int]]:
        """Return by topic the number of messages in unread queues, without those that all of its groups have consumed.

        System topics, and topics without such messages, are left out.
        """
        topics = self._parts.topics.table().topics
        behind = yield from elsewhere(lambda: self._behind(topics.values()))
        if not behind:
            return {}
        places = self._parts.offsets.places()
        return (yield from elsewhere(lambda: _unread(behind, places)))

    def _behind(self, topics: Iterable[TopicConfig]) -> list[ConsumeQueue]:
        """Return the queues that have messages but that clients do not read. Callable in any thread.

        The id of such a queue is not less than the number of read queues of its topic (readQueueNums). Queues of system
        topics are left out.
        """
        return [
            queue
            for config in topics
            for queue in self._parts.store.queues_of(config.name)
            if queue.queue_id >= config.read_queues
            and queue.max_offset > queue.min_offset
            and not self._parts.topics.is_system(config.name)
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
