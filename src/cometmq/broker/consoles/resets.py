"""Sends a group elsewhere in a topic: INVOKE_BROKER_TO_RESET_OFFSET 222.

The broker stores the new offsets, and whoever pulls such a queue next is answered PULL_OFFSET_MOVED
with the new offset; held pulls are woken for it. That works for every client, and for groups that
nobody is in (RocketMQ 5.x, useServerSideResetOffset=true). With false the members are told instead,
as brokers of 4.9 do it (RESET_CONSUMER_CLIENT_OFFSET 220). Follows AdminBrokerProcessor.resetOffset
and Broker2Client.resetOffset of RocketMQ 5.3.3.

Next: cometmq.broker.service.pull
"""

import asyncio
import logging

from cometmq.broker.parts import Feature, Parts
from cometmq.codec.bodies.queue_offsets import (
    encode_queue_offset_list,
    encode_queue_offsets,
)
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.console import ResetOffsetRequest
from cometmq.codec.remoting import Command
from cometmq.model.codes import Language, RequestCode, ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.queue import MessageQueue
from cometmq.model.topic import TopicConfig
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer

_log = logging.getLogger(__name__)
_TO_THE_END = -1  # As timestamp.


class OffsetResets(Feature):
    """Moves groups."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.answers = {RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset}

    async def reset(self, command: Command, peer: Peer) -> Answer:
        """INVOKE_BROKER_TO_RESET_OFFSET 222."""
        request = decode_fields(ResetOffsetRequest, command.fields)
        parts = self._parts
        topic = parts.topics.get(request.topic)
        if topic is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST, f"Topic {request.topic} does not exist"
            )
        if parts.groups.peek(request.group) is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"Group {request.group} does not exist",
            )
        loop = asyncio.get_running_loop()
        offsets = await loop.run_in_executor(parts.pool, self._wanted, request, topic)
        _log.info("resetting %s: %s, asked by %s", request.group, offsets, peer.address)
        if parts.settings.is_reset_by_broker:
            self._assign(request.group, offsets)
        else:
            offsets = self._push(request, offsets, is_listed=command.language == Language.CPP)
        return Answer(body=encode_queue_offsets(offsets))

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
        parts = self._parts
        for name, offset in offsets.items():
            parts.offsets.reset(group, name.topic, name.queue_id, offset=offset)
            queue = parts.store.queue(name.topic, name.queue_id)
            if queue is not None:
                parts.polls.wake_group(queue, group)

    def _push(
        self, request: ResetOffsetRequest, wanted: dict[MessageQueue, int], *, is_listed: bool
    ) -> dict[MessageQueue, int]:
        members = self._parts.members.consumer_group(request.group)
        if members is None:
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
        fields = {
            "topic": request.topic,
            "group": request.group,
            "timestamp": str(request.timestamp),
            "isForce": "true" if request.is_force else "false",
        }
        encode = encode_queue_offset_list if is_listed else encode_queue_offsets
        body = encode(offsets)
        for peer in members.clients:
            peer.notify(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body)
        return offsets
