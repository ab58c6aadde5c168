"""Offsets: of consumer groups (14, 15), and of queues by position and time (29, 30, 31, 32).

Follows ConsumerManageProcessor and AdminBrokerProcessor of RocketMQ 5.3.3.

Next: cometmq.broker.offsets
"""

import asyncio
from collections.abc import Awaitable
from concurrent.futures import Executor

from cometmq.broker.groups import Groups
from cometmq.broker.offsets import BEYOND_MAX, Offsets
from cometmq.broker.topics import QUEUES_MAX, Topics
from cometmq.codec.bodies.consumer_offset import encode_offset_table
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.offset import (
    QueryConsumerOffset,
    QueueRequest,
    SearchOffset,
    UpdateConsumerOffset,
)
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import RequestError
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.message_store import MessageStore

_NO_QUEUE = -1  # What Java answers for the least offset of a queue that was never written.


class OffsetHandler:
    """Handles requests about offsets."""

    def __init__(
        self,
        *,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        offsets: Offsets,
        pool: Executor,
    ) -> None:
        """`pool` reads what would have to wait for the device."""
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._pool = pool
        self.answers: Answers = {
            RequestCode.QUERY_CONSUMER_OFFSET: self.query,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.update,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.all,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.search,
            RequestCode.GET_MAX_OFFSET: self.greatest,
            RequestCode.GET_MIN_OFFSET: self.least,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self.earliest_time,
        }

    # --- of consumer groups

    def query(self, command: Command, _peer: Peer) -> Answer:
        """QUERY_CONSUMER_OFFSET 14."""
        request = decode_fields(QueryConsumerOffset, command.fields)
        offset = self._offsets.get(request.consumer_group, request.topic, request.queue_id)
        if offset is not None:
            return _offset(offset)
        if request.set_zero_if_not_found is False:
            return Answer(
                ResponseCode.QUERY_NOT_FOUND,
                "Not found, do not set to zero, maybe this group boot first",
            )
        if self._is_young(request.topic, request.queue_id):
            # A new group on a topic whose beginning is still there begins at the beginning.
            return _offset(0)
        return Answer(
            ResponseCode.QUERY_NOT_FOUND,
            "Not found, V3_0_6_SNAPSHOT maybe this consumer boot first",
        )

    def _is_young(self, topic: str, queue_id: int) -> bool:
        """Whether the queue still has its first message, and that counts as being in memory."""
        queue = self._store.queue(topic, queue_id)
        if queue is None or queue.min_offset > 0 or queue.max_offset == 0:
            return False
        first = self._store.get(topic, queue_id, 0, max_count=1)
        return not first.suggest_slave

    def update(self, command: Command, _peer: Peer) -> Answer:
        """UPDATE_CONSUMER_OFFSET 15; clients send it oneway as a rule."""
        request = decode_fields(UpdateConsumerOffset, command.fields)
        group, topic = request.consumer_group, request.topic
        if self._groups.get(group) is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!"
            )
        config = self._topics.get(topic)
        if config is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
        # A topic that got fewer queues still has those with messages.
        is_there = 0 <= request.queue_id < config.queue_count or (
            0 <= request.queue_id < QUEUES_MAX
            and self._store.queue(topic, request.queue_id) is not None
        )
        if request.commit_offset < 0 or not is_there:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"offset {request.commit_offset} of queue {request.queue_id} cannot be committed",
            )
        queue = self._store.queue(topic, request.queue_id)
        end = 0 if queue is None else queue.max_offset
        if request.commit_offset > end + BEYOND_MAX:
            # Differs: RocketMQ takes any, and the group skips all that comes until then.
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"offset {request.commit_offset} is illegal: queue {request.queue_id} of topic[{topic}] ends at "
                f"{end}; commit what was consumed",
            )
        if self._offsets.has_reset(group, topic, request.queue_id):
            # It is of before the reset, of which its sender is told at the next pull.
            return Answer(remark="Offset has been previously reset")
        if not self._offsets.has_room(group, topic, request.queue_id):
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                f"[REJECTREQUEST]system busy: no offset of group {group} in topic {topic} is kept: there "
                "are too many offsets; delete groups that nobody uses",
            )
        self._offsets.commit(group, topic, request.queue_id, offset=request.commit_offset)
        return Answer()

    async def all(self, _command: Command, _peer: Peer) -> Answer:
        """GET_ALL_CONSUMER_OFFSET 43."""
        loop = asyncio.get_running_loop()
        table = self._offsets.table()
        return Answer(body=await loop.run_in_executor(self._pool, encode_offset_table, table))

    # --- of queues

    def greatest(self, command: Command, _peer: Peer) -> Answer:
        """GET_MAX_OFFSET 30: what the next message gets, 0 for a queue never written."""
        queue = self._queue(command)
        return _offset(0 if queue is None else queue.max_offset)

    def least(self, command: Command, _peer: Peer) -> Answer:
        """GET_MIN_OFFSET 31."""
        queue = self._queue(command)
        return _offset(_NO_QUEUE if queue is None else queue.min_offset)

    def earliest_time(self, command: Command, _peer: Peer) -> Awaitable[Answer]:
        """GET_EARLIEST_MSG_STORETIME 32."""
        return self._earliest_time(self._queue(command))

    async def _earliest_time(self, queue: ConsumeQueue | None) -> Answer:
        timestamp_ms = -1
        if queue is not None:
            loop = asyncio.get_running_loop()
            timestamp_ms = await loop.run_in_executor(
                self._pool, self._store.earliest_store_time, queue
            )
        return Answer(fields={"timestamp": str(timestamp_ms)})

    def search(self, command: Command, _peer: Peer) -> Awaitable[Answer]:
        """SEARCH_OFFSET_BY_TIMESTAMP 29."""
        request = decode_fields(SearchOffset, command.fields)
        boundary = (request.boundary_type or "LOWER").upper()
        if boundary not in ("LOWER", "UPPER"):
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"boundaryType {boundary} is neither LOWER nor UPPER",
            )
        queue = self._store.queue(request.topic, request.queue_id)
        return self._search(queue, request.timestamp, is_upper=boundary == "UPPER")

    async def _search(
        self, queue: ConsumeQueue | None, timestamp_ms: int, *, is_upper: bool
    ) -> Answer:
        if queue is None:
            return _offset(0)
        loop = asyncio.get_running_loop()
        store = self._store
        return _offset(
            await loop.run_in_executor(
                self._pool, lambda: store.offset_by_time(queue, timestamp_ms, upper=is_upper)
            )
        )

    def _queue(self, command: Command) -> ConsumeQueue | None:
        request = decode_fields(QueueRequest, command.fields)
        return self._store.queue(request.topic, request.queue_id)


def _offset(offset: int) -> Answer:
    return Answer(fields={"offset": str(offset)})
