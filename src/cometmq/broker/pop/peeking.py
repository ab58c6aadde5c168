"""Peeks: return messages from a group's offset on, without popping them.

Unlike a pop, a peek has no filter, ignores locks of pops in order, and starts at a queue's first message for a new
group. Follows PeekMessageProcessor of RocketMQ 5.3.3: the wanted queue, or all starting with a random one,
before or after the group's retry topics.
"""

from typing import NamedTuple

from cometmq.broker.parts import Parts
from cometmq.broker.pop.group_offsets import GroupOffsets
from cometmq.broker.pop.popping import COUNT_MAX, Popping
from cometmq.broker.pop.reading import PopReader, split_records
from cometmq.codec.headers.pop import PeekRequest
from cometmq.model.codes import ResponseCode
from cometmq.steps.steps import Steps, elsewhere
from cometmq.store.reader import GetStatus


class PeekResult(NamedTuple):
    """The answer to a peek.

    Attributes:
        code: SUCCESS if messages are returned, else PULL_NOT_FOUND.
        remark: FOUND or NO_MESSAGE_IN_QUEUE.
        left: Number of further messages, in the queues that were examined.
        records: The messages as they are encoded in the log.
    """

    code: int
    remark: str
    left: int
    records: list[bytes | memoryview]


class Peeking:
    """The service for peeks, which read messages from a group's offsets on without popping them."""

    def __init__(
        self,
        parts: Parts,
        popping: Popping,
        reader: PopReader,
        offsets: GroupOffsets,
    ) -> None:
        """`popping` checks topic and group."""
        self._parts = parts
        self._popping = popping
        self._reader = reader
        self._offsets = offsets

    def peek(self, request: PeekRequest) -> Steps[PeekResult]:
        """Return at most as many messages as requested, up to 32, from the group's offsets on, or PULL_NOT_FOUND.

        Raises:
            RequestError: The topic or this queue of it cannot be popped, or not by this group.
        """
        self._popping.topic_of(request.topic, request.queue_id)
        self._popping.check_group(request.consumer_group)
        pieces: list[bytes | memoryview] = []
        count = left = 0
        for topic, queue_id in self._places(request):
            wanted = min(request.max_msg_nums, COUNT_MAX) - count
            more, rest = yield from self._look(request.consumer_group, topic, queue_id, wanted)
            pieces += more
            count += len(split_records(more))
            left += rest
        status = GetStatus.FOUND if count else GetStatus.NO_MESSAGE_IN_QUEUE
        code = ResponseCode.SUCCESS if count else ResponseCode.PULL_NOT_FOUND
        return PeekResult(code, status, left, pieces)

    def _places(self, request: PeekRequest) -> list[tuple[str, int]]:
        topic = self._popping.topic_of(request.topic, request.queue_id)
        first = self._parts.chance.randrange(100)
        count = topic.read_queues
        places = [(topic.name, (first + number) % count) for number in range(count)]
        if request.queue_id >= 0:
            places = [(topic.name, request.queue_id)]
        retries = [
            (retry.name, queue_id)
            for retry in self._reader.retry_topics(topic.name, request.consumer_group)
            for queue_id in range(retry.read_queues)
        ]
        is_retry_first = first < self._parts.settings.retry_share
        return retries + places if is_retry_first else places + retries

    def _look(
        self, group: str, topic: str, queue_id: int, count: int
    ) -> Steps[tuple[list[memoryview], int]]:
        """Return messages of a queue from the group's offset on, and the number of further messages."""
        queue = self._parts.store.queue(topic, queue_id)
        if queue is None:
            return [], 0
        place = self._offsets.next_offset((group, topic, queue_id)) or 0
        offset = max(place, queue.min_offset)
        left = max(queue.max_offset - offset, 0)
        if count <= 0 or not left:
            return [], left
        result = self._parts.store.get(topic, queue_id, offset, max_count=count)
        if result.cold is not None:
            result = yield from elsewhere(result.cold)
        return result.records, left - result.message_count
