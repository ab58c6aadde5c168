"""The raw entries of a queue, for `mqadmin queryCq`.

Follows AdminBrokerProcessor.queryConsumeQueue of RocketMQ 5.3.3.
"""

from functools import partial

from cometmq.broker.parts import Parts
from cometmq.codec.bodies.queue_entries import QueueLook
from cometmq.codec.headers.console import QueueEntriesRequest
from cometmq.codec.queue_entry import QueueEntry
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.steps.steps import Steps, elsewhere
from cometmq.store.consume_queue import ConsumeQueue

_COUNT_MAX = 10_000  # 200 kB of entries are 1 MB as JSON; Java has no limit.


class QueueEntries:
    """Looks up entries of a queue, with its bounds and a group's subscription to the topic."""

    def __init__(self, parts: Parts) -> None:
        self._store = parts.store
        self._members = parts.members

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
            read = partial(self._store.entries, queue, request.index, count)
            try:
                entries = yield from elsewhere(read)
                break
            except FileNotFoundError:
                # The topic or its oldest files may have been deleted meanwhile; otherwise the queue is damaged.
                if self._queue(request) is queue and _has(queue, request.index):
                    raise
        topic, group = request.topic, request.consumer_group
        wanted = None if group is None else self._members.subscription(group, topic)
        return QueueLook(queue.min_offset, queue.max_offset, entries, topic, group, wanted)

    def _queue(self, request: QueueEntriesRequest) -> ConsumeQueue:
        queue = self._store.queue(request.topic, request.queue_id)
        if queue is None:
            name = f"{request.queue_id}@{request.topic}"
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"{name} is not exist!")
        return queue


def _has(queue: ConsumeQueue, index: int) -> bool:
    return queue.min_offset <= index < queue.max_offset
