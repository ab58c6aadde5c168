"""Resets the offsets of a group in a topic.

The broker stores the new offsets and moves consumers there with their next pull or pop; held pulls are woken for that.
This works also for groups without members (RocketMQ 5.x, useServerSideResetOffset=true). With false the members are
notified instead, as by brokers of 4.9. Follows AdminBrokerProcessor.resetOffset and Broker2Client.resetOffset of 5.3.3.
"""

import logging
from typing import NamedTuple

from cometmq.broker.parts import Parts
from cometmq.broker.tables.saving import saved
from cometmq.codec.headers.console import ResetOffsetRequest
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.names import check_group_of_clients
from cometmq.model.queue import MessageQueue
from cometmq.model.topic import TopicConfig
from cometmq.steps.steps import Steps, elsewhere

_log = logging.getLogger(__name__)
_TO_THE_END = -1  # As timestamp: the end of the queue.


class ResetResult(NamedTuple):
    """The result of a reset: the new offsets, and whether the members must be notified to move themselves."""

    offsets: dict[MessageQueue, int]
    is_for_members: bool


class GroupResets:
    """The reset of a group's offsets, by the broker or by the group's members."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def reset(self, request: ResetOffsetRequest) -> Steps[ResetResult]:
        """Reset a group's offsets, or with useServerSideResetOffset=false only return those to which members must move.

        Raises:
            RequestError: The topic or group does not exist, a requested offset is outside the queue, the group is the
                broker's own, members must move themselves and there are none, or no majority of the group has the reset.
        """
        check_group_of_clients(request.group)
        topic = self._parts.topics.get(request.topic)
        if topic is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST, f"Topic {request.topic} does not exist"
            )
        if self._parts.groups.peek(request.group) is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"Group {request.group} does not exist",
            )
        wanted = yield from elsewhere(lambda: self._wanted(request, topic))
        shown = ", ".join(
            f"queue {queue.queue_id} to {offset}" for queue, offset in wanted.items()
        )
        _log.info("group %s is reset in topic %s: %s", request.group, topic.name, shown)
        if self._parts.settings.is_reset_by_broker:
            self._assign(request.group, wanted)
            yield from saved(self._parts.offsets.logged())
            return ResetResult(wanted, is_for_members=False)
        return ResetResult(self._for_members(request, wanted), is_for_members=True)

    def _wanted(
        self, request: ResetOffsetRequest, topic: TopicConfig
    ) -> dict[MessageQueue, int]:
        one = request.queue_id >= 0
        numbers = [request.queue_id] if one else range(topic.read_queues)
        broker = self._parts.settings.broker_name
        return {
            MessageQueue(topic.name, broker, number): self._offset(
                request, number, is_named=one and request.offset not in (None, -1)
            )
            for number in numbers
        }

    def _offset(self, request: ResetOffsetRequest, number: int, *, is_named: bool) -> int:
        queue = self._parts.store.queue(request.topic, number)
        least, most = (0, 0) if queue is None else (queue.min_offset, queue.max_offset)
        if is_named:
            offset = request.offset or 0
            if not least <= offset <= most:
                raise RequestError(
                    ResponseCode.SYSTEM_ERROR,
                    f"Target offset {offset} not in consume queue range [{least}-{most}]",
                )
            return offset
        if request.timestamp == _TO_THE_END or queue is None:
            return most
        return self._parts.store.offset_by_time(queue, request.timestamp)

    def _assign(self, group: str, offsets: dict[MessageQueue, int]) -> None:
        for name, offset in offsets.items():
            self._parts.offsets.reset(group, name.topic, name.queue_id, offset=offset)
            queue = self._parts.store.queue(name.topic, name.queue_id)
            if queue is not None:
                self._parts.polls.wake_group(queue, group)

    def _for_members(
        self, request: ResetOffsetRequest, wanted: dict[MessageQueue, int]
    ) -> dict[MessageQueue, int]:
        if self._parts.members.consumer_group(request.group) is None:
            raise RequestError(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"Consumer not online, so can not reset offset, Group: {request.group} Topic: "
                f"{request.topic} Timestamp: {request.timestamp}",
            )
        offsets = {}
        for queue, offset in wanted.items():
            known = self._parts.offsets.get(request.group, queue.topic, queue.queue_id)
            is_moved = request.is_force or known is None or offset < known
            offsets[queue] = offset if is_moved or known is None else known
        return offsets
