"""Offsets: committed offsets of groups, and offsets of queues by position and time.

Follows ConsumerManageProcessor and AdminBrokerProcessor of RocketMQ 5.3.3.
"""

from collections.abc import Mapping

from cometmq.broker.parts import Parts
from cometmq.broker.tables.offsets import BEYOND_MAX
from cometmq.broker.tables.topics import QUEUES_MAX
from cometmq.codec.headers.offset import (
    QueryConsumerOffset,
    QueueRequest,
    SearchOffset,
    UpdateConsumerOffset,
)
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError, invalid_parameter
from cometmq.model.names import check_group_of_clients
from cometmq.steps.steps import Steps, at_once_or_elsewhere, elsewhere
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.message_store import MessageStore

NO_TIME_MS = -1


class CommittedOffsets:
    """The committed offsets of groups, with the rules for groups without one."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def find(self, request: QueryConsumerOffset) -> Steps[int]:
        """Return the offset that a group committed in a queue; without one, 0 if the queue counts as new.

        A queue is new if its first message is still there, and recent or younger than the group's consumption.

        Raises:
            RequestError: QUERY_NOT_FOUND: The queue is not new or has no message, or only a committed offset is wanted;
                the consumer then starts by its own rule (consumeFromWhere).
        """
        offset = self._parts.offsets.get(
            request.consumer_group, request.topic, request.queue_id
        )
        if offset is not None:
            return offset
        if request.set_zero_if_not_found is False:
            raise RequestError(
                ResponseCode.QUERY_NOT_FOUND,
                "Not found, do not set to zero, maybe this group boot first",
            )
        if (yield from self._is_young(request.topic, request.queue_id)):
            # A new group starts at the beginning of a topic whose first messages are still there and recent.
            return 0
        queue = self._parts.store.queue(request.topic, request.queue_id)
        if queue is not None and (yield from self._is_younger_than_group(request, queue)):
            return queue.min_offset
        raise RequestError(
            ResponseCode.QUERY_NOT_FOUND,
            "Not found, V3_0_6_SNAPSHOT maybe this consumer boot first",
        )

    def _is_young(self, topic: str, queue_id: int) -> Steps[bool]:
        """Return whether the queue still has its first message, and that is recent enough to count as in memory."""
        queue = self._parts.store.queue(topic, queue_id)
        if queue is None or queue.min_offset > 0 or queue.max_offset == 0:
            return False
        first = self._parts.store.get(topic, queue_id, 0, max_count=1)
        if first.cold is not None:
            first = yield from elsewhere(first.cold)
        return not first.suggest_slave

    def _is_younger_than_group(
        self, request: QueryConsumerOffset, queue: ConsumeQueue
    ) -> Steps[bool]:
        """Return whether a queue's first message is younger than the group's consumption of the topic's other queues.

        Differs: in RocketMQ the group starts at the end of such a queue (its issue 9307), and misses what was sent
        while it was away. A group that is new in the topic must not start at the beginning of one queue just because it
        has committed its offset of another. So the first message must be younger than the group's first commit, or, if
        that time is unknown (as after a restart), younger than the last messages that it consumed in other queues.
        """
        group, topic = request.consumer_group, request.topic
        if queue.min_offset > 0:
            return False  # It is old, and its first messages were deleted.
        others = self._parts.offsets.of(group, topic)
        if not others or queue.max_offset == 0:
            return False
        began_ms = self._parts.offsets.began_ms(group, topic)

        def is_younger() -> bool:
            until_ms = self._consumed_until_ms(topic, others) if began_ms is None else began_ms
            return 0 <= until_ms < self._parts.store.earliest_store_time(queue)

        return (yield from elsewhere(is_younger))

    def _consumed_until_ms(self, topic: str, offsets: Mapping[int, int]) -> int:
        """Return about when a topic's youngest message before `offsets` was stored, epoch ms; -1 if none. May block."""
        times_ms = [-1]
        for queue_id, offset in offsets.items():
            queue = self._parts.store.queue(topic, queue_id)
            if queue is not None and offset > 0:
                # A deleted message was older than the first remaining one.
                last = max(offset - 1, queue.min_offset)
                times_ms.append(self._parts.store.store_time_at(queue, last))
        return max(times_ms)

    def commit(self, request: UpdateConsumerOffset) -> bool:
        """Commit a group's offset; return False if it is ignored because no consumer has learned of a reset yet.

        Raises:
            RequestError: The group is the broker's own or is not created, the topic or queue does not exist, the offset is
                negative or too far beyond the queue's end, or there is no room for another offset or group.
        """
        self._check(request)
        group, topic, queue_id = request.consumer_group, request.topic, request.queue_id
        if self._parts.offsets.has_reset(group, topic, queue_id):
            # It is from before the reset, of which the consumer learns with its next pull.
            return False
        if not self._parts.offsets.has_room(group, topic, queue_id):
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                f"[REJECTREQUEST]system busy: the offset of group {group} in topic {topic} is not stored: there "
                "are too many offsets; delete unused groups",
            )
        self._parts.offsets.commit(group, topic, queue_id, offset=request.commit_offset)
        return True

    def _check(self, request: UpdateConsumerOffset) -> None:
        topic, queue_id, offset = request.topic, request.queue_id, request.commit_offset
        check_group_of_clients(request.consumer_group)
        if self._parts.groups.get(request.consumer_group) is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"Group {request.consumer_group} not exist!",
            )
        config = self._parts.topics.get(topic)
        if config is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
        # A topic with a reduced number of queues still has those with messages.
        is_there = 0 <= queue_id < config.queue_count or (
            0 <= queue_id < QUEUES_MAX and self._parts.store.queue(topic, queue_id) is not None
        )
        if offset < 0 or not is_there:
            raise invalid_parameter(
                f"offset {offset} of queue {queue_id} of topic[{topic}] cannot be committed: the offset is negative, or "
                "the queue does not exist"
            )
        queue = self._parts.store.queue(topic, queue_id)
        end = 0 if queue is None else queue.max_offset
        # The members of a group may not know yet that a topic was deleted and recreated.
        beyond_max = 0 if self._parts.topics.deleted.was_deleted(topic) else BEYOND_MAX
        if offset > end + beyond_max:
            # Differs: RocketMQ accepts any offset, and the group skips all messages before it.
            raise invalid_parameter(
                f"offset {offset} is illegal: queue {queue_id} of topic[{topic}] ends at "
                f"{end}; commit only offsets of consumed messages"
            )


class QueueOffsets:
    """The min and max offsets of queues, their oldest store time, and offsets by time."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def end(self, request: QueueRequest) -> int:
        """Return the offset after a queue's last readable message; 0 without a queue."""
        queue = self._store.queue(request.topic, request.queue_id)
        return 0 if queue is None else queue.max_offset

    def beginning(self, request: QueueRequest) -> int:
        """Return a queue's min offset: that of its first remaining message, if any; 0 without a queue."""
        queue = self._store.queue(request.topic, request.queue_id)
        return 0 if queue is None else queue.min_offset

    def earliest_ms(self, request: QueueRequest) -> Steps[int]:
        """Return the store time of a queue's first remaining message, epoch ms; `NO_TIME_MS` (-1) if none is found."""
        queue = self._store.queue(request.topic, request.queue_id)
        if queue is None:
            return NO_TIME_MS
        return (
            yield from at_once_or_elsewhere(
                lambda may_wait: self._store.earliest_store_time(queue, may_wait=may_wait)
            )
        )

    def by_time(self, request: SearchOffset) -> Steps[int]:
        """Return a queue's offset at a time; 0 without a queue.

        With LOWER, the default, it is the first message stored at or after the time, with UPPER the last one stored at
        or before it. If there is no such message, LOWER returns the max offset and UPPER the min offset.

        Raises:
            RequestError: INVALID_PARAMETER: The boundary is neither LOWER nor UPPER.
        """
        boundary = (request.boundary_type or "LOWER").upper()
        if boundary not in ("LOWER", "UPPER"):
            raise invalid_parameter(f"boundaryType {boundary} is neither LOWER nor UPPER")
        queue = self._store.queue(request.topic, request.queue_id)
        if queue is None:
            return 0
        return (
            yield from at_once_or_elsewhere(
                lambda may_wait: self._store.offset_by_time(
                    queue, request.timestamp, upper=boundary == "UPPER", may_wait=may_wait
                )
            )
        )
