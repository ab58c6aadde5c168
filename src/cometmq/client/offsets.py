"""Offsets at the broker: of a queue (first, end, by time) and of a consumer group."""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any

from cometmq.client.hub import Hub
from cometmq.codec.fields import decode_fields, encode_fields
from cometmq.codec.headers.offset import (
    OffsetResponse,
    QueryConsumerOffset,
    QueueRequest,
    SearchOffset,
    UpdateConsumerOffset,
)
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import BrokerRefused, CodecError, RequestError
from cometmq.model.queue import MessageQueue


class BrokerOffsets:
    """Asks the broker of a queue about offsets. Its methods raise what `Hub.ask` raises."""

    def __init__(self, hub: Hub) -> None:
        """Over this hub's connections."""
        self._hub = hub
        # Where a group has stored an offset: (group, topic, broker).
        self._begun: set[tuple[str, str, str]] = set()

    async def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the queue's first message; 0 of a queue without any."""
        header = QueueRequest(queue.topic, queue.queue_id)
        return max(await self._ask(queue, RequestCode.GET_MIN_OFFSET, header), 0)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the queue's next message will get."""
        header = QueueRequest(queue.topic, queue.queue_id)
        return await self._ask(queue, RequestCode.GET_MAX_OFFSET, header)

    async def offset_by_time(
        self, queue: MessageQueue, timestamp_ms: int, *, is_upper: bool = False
    ) -> int:
        """The offset of the first message stored at that time or later, ms since 1970.

        The queue's end where there is none. With `is_upper`: of the last message stored at that
        time or earlier, which a broker of 5.x knows.
        """
        boundary = "UPPER" if is_upper else None
        header = SearchOffset(queue.topic, queue.queue_id, timestamp_ms, boundary)
        return await self._ask(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    async def committed(self, group: str, queue: MessageQueue) -> int | None:
        """The next offset that a group will consume; None when it never committed any.

        A broker answers 0 for a queue whose first message it still has in memory, so a new group
        begins a young queue at its start (ConsumerManageProcessor of RocketMQ 5.3.3).
        """
        header = QueryConsumerOffset(group, queue.topic, queue.queue_id)
        try:
            return await self._ask(queue, RequestCode.QUERY_CONSUMER_OFFSET, header)
        except BrokerRefused as refused:
            if refused.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise

    async def commit(
        self, group: str, queue: MessageQueue, offset: int, *, is_oneway: bool = False
    ) -> None:
        """Store the next offset that a group will consume."""
        header = UpdateConsumerOffset(group, queue.topic, queue.queue_id, offset)
        command = Command(RequestCode.UPDATE_CONSUMER_OFFSET, fields=encode_fields(header))
        address = await self._address(queue)
        if is_oneway:
            await self._hub.channels.oneway(address, command)
        else:
            await self._hub.ask(address, command)

    async def commit_all(
        self, group: str, offsets: Mapping[MessageQueue, int], *, is_answered: bool = True
    ) -> None:
        """Store where a group stands in several queues; the failure of one broker stops no other.

        Args:
            group: the consumer group.
            offsets: the next offset to consume, by queue.
            is_answered: return when the brokers have stored them all; else when they are told.
        """
        shares: dict[tuple[str, str, str], list[tuple[MessageQueue, int]]] = {}
        for queue, offset in offsets.items():
            place = group, queue.topic, queue.broker_name
            shares.setdefault(place, []).append((queue, offset))
        await _all(
            self._commit_share(place, pairs, is_answered=is_answered)
            for place, pairs in shares.items()
        )

    async def _commit_share(
        self,
        place: tuple[str, str, str],
        pairs: list[tuple[MessageQueue, int]],
        *,
        is_answered: bool,
    ) -> None:
        group, _, _ = place
        if place not in self._begun:
            # The first is stored before the others are sent. A Java broker handles commits in several
            # threads, and two that both find nothing of the group in this topic each make a table for
            # it, of which one is lost (ConsumerOffsetManager.commitOffset of RocketMQ 5.3.3).
            await self.commit(group, *pairs.pop())
            self._begun.add(place)
        if is_answered:
            await _all(self.commit(group, *pair) for pair in pairs)
            return
        for pair in pairs:
            await self.commit(group, *pair, is_oneway=True)

    async def _ask(self, queue: MessageQueue, code: RequestCode, header: Any) -> int:
        command = Command(code, fields=encode_fields(header))
        answer = await self._hub.ask(await self._address(queue), command)
        try:
            return decode_fields(OffsetResponse, answer.fields).offset
        except RequestError as error:
            raise CodecError(f"the answer to {code.name} of {queue}: {error.remark}") from None

    async def _address(self, queue: MessageQueue) -> str:
        if self._hub.routes.get(queue.topic) is None:
            await self._hub.known(queue.topic)
        return self._hub.address(queue.broker_name)


async def _all(works: Iterable[Awaitable[None]]) -> None:
    """Wait for all of them, then raise what the first that failed raised."""
    for result in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
