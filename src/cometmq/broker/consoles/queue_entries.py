"""QUERY_CONSUME_QUEUE 321: the entries of a queue as they lie there, for `mqadmin queryCq`.

Follows AdminBrokerProcessor.queryConsumeQueue of RocketMQ 5.3.3.

Next: cometmq.codec.queue_entry
"""

import asyncio

from cometmq.broker.parts import Feature, Parts
from cometmq.codec.bodies.queue_entries import QueueLook, encode_queue_look
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.console import QueueEntriesRequest
from cometmq.codec.queue_entry import QueueEntry
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import RequestError
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.store.consume_queue import ConsumeQueue

_COUNT_MAX = 10_000  # 200 kB of entries are 1 MB as JSON; Java gives as many as are asked for.


class QueueEntries(Feature):
    """Shows entries of queues."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.answers = {RequestCode.QUERY_CONSUME_QUEUE: self.look}

    async def look(self, command: Command, _peer: Peer) -> Answer:
        """Answer with the queue's bounds, entries from one on, and what a group wants of the topic."""
        request = decode_fields(QueueEntriesRequest, command.fields)
        topic, number, group = request.topic, request.queue_id, request.consumer_group
        queue = self._parts.store.queue(topic, number)
        if queue is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"{number}@{topic} is not exist!")
        wanted = None if group is None else self._parts.members.subscription(group, topic)
        entries = await self._entries(queue, request)
        look = QueueLook(queue.min_offset, queue.max_offset, entries, topic, group, wanted)
        is_there = queue.min_offset <= request.index < queue.max_offset
        remark = (
            None if is_there else f"Index {request.index} of {number}@{topic} is not exist!"
        )
        return Answer(remark=remark, body=encode_queue_look(look))

    async def _entries(
        self, queue: ConsumeQueue, request: QueueEntriesRequest
    ) -> list[QueueEntry]:
        if not queue.min_offset <= request.index < queue.max_offset:
            return []
        count = min(max(request.count, 0), _COUNT_MAX)
        loop, read = asyncio.get_running_loop(), self._parts.store.entries
        return await loop.run_in_executor(self._parts.pool, read, queue, request.index, count)
