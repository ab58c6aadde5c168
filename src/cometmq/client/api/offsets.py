"""Requests about offsets of one queue or many: first, last, by time, and committed by a group."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

from cometmq.client.api.asking import QueueAsker, ask_each, read_fields
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.offset import (
    OffsetResponse,
    QueryConsumerOffset,
    QueueRequest,
    SearchOffset,
    TimestampResponse,
    UpdateConsumerOffset,
)
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode, request_name
from cometmq.model.errors import BrokerRefused, CometError
from cometmq.model.queue import MessageQueue

# What is said about many queues: an offset, or why there is none.
Offsets = dict[MessageQueue, int | CometError]


class OffsetBounds(NamedTuple):
    """The first offset that a queue still holds, and the one that its next message will get."""

    first: int
    end: int


class OffsetApi:
    """Asks the brokers of queues about offsets; raises what `QueueAsker` raises.

    A plural asks about all its queues side by side and gives, for each, an offset or the error that stands in
    its place: a broker that is away takes nothing from the queues of others.
    """

    def __init__(self, finds: QueueAsker) -> None:
        """Use these connections and routes."""
        self._finds = finds
        # Where a group has stored an offset: (group, topic, broker).
        self._begun: set[tuple[str, str, str]] = set()

    # --- of a queue

    async def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the queue's first message; 0 of a queue without any."""
        return max(await self._ask(queue, _min_offset(queue)), 0)

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the queue's next message will get."""
        return await self._ask(queue, _max_offset(queue))

    async def offset_by_time(
        self, queue: MessageQueue, timestamp_ms: int, *, upper: bool = False
    ) -> int:
        """The offset of the first message stored at that time or later, ms since 1970.

        The queue's end where there is none. With `upper`: of the last message stored at that
        time or earlier, which a broker of 5.x knows.
        """
        return await self._ask(queue, _by_time(queue, timestamp_ms, upper=upper))

    async def first_stored_ms(self, queue: MessageQueue) -> int:
        """Return the store time of the first message that is still there, ms since 1970; -1 without one."""
        header = QueueRequest(queue.topic, queue.queue_id)
        command = Command(RequestCode.GET_EARLIEST_MSG_STORETIME, fields=encode_fields(header))
        answer = await self._finds.ask(await self._finds.broker_of(queue), command)
        what = f"the answer to {request_name(command.code)} of {queue}"
        return read_fields(TimestampResponse, answer, what).timestamp

    # --- of many

    async def min_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        """The offset of the first message of each queue, or the error in its place."""
        found = await self._ask_each(queues, _min_offset)
        return {
            queue: max(offset, 0) if isinstance(offset, int) else offset
            for queue, offset in found.items()
        }

    async def max_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        """The offset that the next message of each queue will get, or the error in its place."""
        return await self._ask_each(queues, _max_offset)

    async def bounds(
        self, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, OffsetBounds | CometError]:
        """The smallest and the next offset of each queue, or the error in its place."""
        queues = list(queues)
        firsts, ends = await asyncio.gather(self.min_offsets(queues), self.max_offsets(queues))
        return {queue: _bounds(firsts[queue], ends[queue]) for queue in queues}

    async def offsets_by_time(
        self, times_ms: Mapping[MessageQueue, int], *, upper: bool = False
    ) -> Offsets:
        """The offset of the first message at a time or later in each queue, or the error in its place."""
        return await self._ask_each(
            times_ms, lambda queue: _by_time(queue, times_ms[queue], upper=upper)
        )

    # --- where a group stands

    async def committed(self, group: str, queue: MessageQueue) -> int | None:
        """The next offset that a group will consume; None when it never committed any.

        A broker answers 0 for a queue whose first message it still has in memory, so a new group
        begins a young queue at its start (ConsumerManageProcessor of RocketMQ 5.3.3).
        """
        try:
            return await self._ask(queue, _committed(group, queue))
        except BrokerRefused as refused:
            if refused.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise

    async def committed_offsets(
        self, group: str, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int | CometError | None]:
        """The offset that a group has committed in each queue, None for none, or the error in its place."""
        found = await self._ask_each(queues, lambda queue: _committed(group, queue))
        return {
            queue: None
            if isinstance(offset, BrokerRefused) and offset.code == ResponseCode.QUERY_NOT_FOUND
            else offset
            for queue, offset in found.items()
        }

    async def commit(
        self, group: str, queue: MessageQueue, offset: int, *, oneway: bool = False
    ) -> None:
        """Store the next offset that a group will consume."""
        header = UpdateConsumerOffset(group, queue.topic, queue.queue_id, offset)
        command = Command(RequestCode.UPDATE_CONSUMER_OFFSET, fields=encode_fields(header))
        address = await self._finds.broker_of(queue)
        if oneway:
            await self._finds.tell(address, command)
        else:
            await self._finds.ask(address, command)

    async def commit_all(
        self, group: str, offsets: Mapping[MessageQueue, int], *, answered: bool = True
    ) -> None:
        """Commit a group's offsets of several queues; the failure of one broker stops no other.

        Args:
            group: the consumer group.
            offsets: the next offset to consume, by queue.
            answered: return when the brokers have stored them all; else when they are told.
        """
        shares: dict[tuple[str, str, str], list[tuple[MessageQueue, int]]] = {}
        for queue, offset in offsets.items():
            place = group, queue.topic, queue.broker_name
            shares.setdefault(place, []).append((queue, offset))
        await _all(
            self._commit_share(place, pairs, answered=answered)
            for place, pairs in shares.items()
        )

    async def _commit_share(
        self,
        place: tuple[str, str, str],
        pairs: list[tuple[MessageQueue, int]],
        *,
        answered: bool,
    ) -> None:
        group, _, _ = place
        if place not in self._begun:
            # The first is stored before the others are sent. A Java broker handles commits in several
            # threads, and two that both find nothing of the group in this topic each make a table for
            # it, of which one is lost (ConsumerOffsetManager.commitOffset of RocketMQ 5.3.3).
            await self.commit(group, *pairs.pop())
            self._begun.add(place)
        if answered:
            await _all(self.commit(group, *pair) for pair in pairs)
            return
        for pair in pairs:
            await self.commit(group, *pair, oneway=True)

    # --- asking

    async def _ask(self, queue: MessageQueue, command: Command) -> int:
        answer = await self._finds.ask(await self._finds.broker_of(queue), command)
        return _offset(queue, command, answer)

    async def _ask_each(
        self, queues: Iterable[MessageQueue], make: Callable[[MessageQueue], Command]
    ) -> Offsets:
        asked = [(queue, make(queue)) for queue in queues]
        answers = await ask_each(self._finds, asked)
        found: Offsets = {}
        for (queue, command), answer in zip(asked, answers, strict=True):
            if isinstance(answer, CometError):
                found[queue] = answer
                continue
            try:
                found[queue] = _offset(queue, command, answer)
            except CometError as error:
                found[queue] = error
        return found


def _min_offset(queue: MessageQueue) -> Command:
    header = QueueRequest(queue.topic, queue.queue_id)
    return Command(RequestCode.GET_MIN_OFFSET, fields=encode_fields(header))


def _max_offset(queue: MessageQueue) -> Command:
    header = QueueRequest(queue.topic, queue.queue_id)
    return Command(RequestCode.GET_MAX_OFFSET, fields=encode_fields(header))


def _by_time(queue: MessageQueue, timestamp_ms: int, *, upper: bool) -> Command:
    header = SearchOffset(queue.topic, queue.queue_id, timestamp_ms, "UPPER" if upper else None)
    return Command(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields=encode_fields(header))


def _committed(group: str, queue: MessageQueue) -> Command:
    header = QueryConsumerOffset(group, queue.topic, queue.queue_id)
    return Command(RequestCode.QUERY_CONSUMER_OFFSET, fields=encode_fields(header))


def _offset(queue: MessageQueue, command: Command, answer: Command) -> int:
    what = f"the answer to {request_name(command.code)} of {queue}"
    return read_fields(OffsetResponse, answer, what).offset


def _bounds(first: int | CometError, end: int | CometError) -> OffsetBounds | CometError:
    if isinstance(first, CometError):
        return first
    return end if isinstance(end, CometError) else OffsetBounds(first, end)


async def _all(works: Iterable[Awaitable[None]]) -> None:
    """Wait for all of them, then raise what the first that failed raised."""
    for result in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
