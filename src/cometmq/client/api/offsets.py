"""Requests about the offsets of one queue or many: the first, the next to be stored, by time, and committed by a group."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from cometmq.client.api.asking import ask_each, read_fields, unless
from cometmq.codec.bodies.stats import QueueBounds
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

if TYPE_CHECKING:
    from cometmq.client.connection.instance import ClientInstance

# Results for many queues: an offset or a time, or an error, for each.
Offsets = dict[MessageQueue, int | CometError]


class OffsetApi:
    """Queries and commits offsets at the brokers of queues.

    Methods for one queue raise TopicNotFound, BrokerNotFound, BrokerRefused, NetError and CodecError. Queries of several
    queues run concurrently and return a result or such an error for each queue.
    """

    def __init__(self, finds: "ClientInstance") -> None:
        self._finds = finds
        # (group, topic, broker) for which an offset has been committed.
        self._begun: set[tuple[str, str, str]] = set()

    # --- one queue

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the offset of a queue's first remaining message; 0 if the queue never had a message."""
        return max(await self._ask(queue, _min_offset(queue)), 0)

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset after the queue's last readable message, as its broker knows it."""
        return await self._ask(queue, _max_offset(queue))

    async def offset_by_time(
        self, queue: MessageQueue, timestamp_ms: int, *, upper: bool = False
    ) -> int:
        """Return the offset of the first message stored at or after a time, ms since 1970; the queue's end if there is none.

        With `upper`, return that of the last message stored at or before the time, if there is one. Brokers of 4.x ignore
        `upper`, and return the offset nearest to the time.
        """
        return await self._ask(queue, _by_time(queue, timestamp_ms, upper=upper))

    async def first_stored_ms(self, queue: MessageQueue) -> int:
        """Return the store time of the first message in a queue, ms since 1970; -1 if the queue has none."""
        command = _first_time(queue)
        answer = await self._finds.ask(await self._finds.broker_of(queue), command)
        return _timestamp(queue, command, answer)

    # --- many queues

    async def first_stored_times(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return a dict of queues to the store time of their first message, as `first_stored_ms`, or to an error."""
        return await self._ask_each(queues, _first_time, _timestamp)

    async def min_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return a dict of queues to the offset of their first message, or to an error."""
        found = await self._ask_each(queues, _min_offset)
        return {
            queue: max(offset, 0) if isinstance(offset, int) else offset
            for queue, offset in found.items()
        }

    async def max_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return a dict of queues to the offset that their next message will get, or to an error."""
        return await self._ask_each(queues, _max_offset)

    async def bounds(
        self, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, QueueBounds | CometError]:
        """Return a dict of queues to the offsets of their first message and the next one to come, or to an error."""
        queues = list(queues)
        firsts, ends = await asyncio.gather(self.min_offsets(queues), self.max_offsets(queues))
        return {queue: _bounds(firsts[queue], ends[queue]) for queue in queues}

    async def offsets_by_time(
        self, times_ms: Mapping[MessageQueue, int], *, upper: bool = False
    ) -> Offsets:
        """Return a dict of queues to the offset of the first message stored at or after a time, or to an error.

        `times_ms` are the times by queue, ms since 1970; `upper` and the end of a queue are as in `offset_by_time`.
        """
        return await self._ask_each(
            times_ms, lambda queue: _by_time(queue, times_ms[queue], upper=upper)
        )

    # --- committed offsets

    async def committed(
        self, group: str, queue: MessageQueue, *, may_be_zero: bool = True
    ) -> int | None:
        """Return the committed offset of a group; None if there is none.

        With `may_be_zero`, if there is none, a broker returns 0 for a queue whose first message is still in memory, so that a new group
        starts at the beginning (ConsumerManageProcessor of RocketMQ 5.3.3). CometMQ's broker also does for a queue that
        is younger than the group.
        """
        asked = self._ask(queue, _committed(group, queue, may_be_zero=may_be_zero))
        return await unless((ResponseCode.QUERY_NOT_FOUND,), asked)

    async def committed_offsets(
        self, group: str, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int | CometError | None]:
        """Return a dict of queues to a group's committed offset or None, as in `committed`, or an error."""
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
        """Request that a broker commits the next offset of a group in a queue; with `oneway`, do not wait for the answer."""
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
        """Commit a group's next offsets of several queues; the failure of one broker does not affect the others.

        With `answered`, wait until the brokers have answered all commits; otherwise only this object's first one of a
        group and topic at a broker. The first error is raised at the end.
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
            # The first commit must be stored before the others are sent. A Java broker handles commits in several threads;
            # if two of them find no table for the group and topic, each creates one and one is lost
            # (ConsumerOffsetManager.commitOffset of RocketMQ 5.3.3).
            await self.commit(group, *pairs.pop())
            self._begun.add(place)
        if answered:
            await _all(self.commit(group, *pair) for pair in pairs)
            return
        for pair in pairs:
            await self.commit(group, *pair, oneway=True)

    # --- sending

    async def _ask(self, queue: MessageQueue, command: Command) -> int:
        answer = await self._finds.ask(await self._finds.broker_of(queue), command)
        return _offset(queue, command, answer)

    async def _ask_each(
        self,
        queues: Iterable[MessageQueue],
        make: Callable[[MessageQueue], Command],
        read: Callable[[MessageQueue, Command, Command], int] | None = None,
    ) -> Offsets:
        """Send a request for each queue; return the number that `read` (None: the offset) gets from its answer.

        For a queue whose request fails, the result has the error instead.
        """
        read = read or _offset
        asked = [(queue, make(queue)) for queue in queues]
        answers = await ask_each(self._finds, asked)
        found: Offsets = {}
        for (queue, command), answer in zip(asked, answers, strict=True):
            if isinstance(answer, CometError):
                found[queue] = answer
                continue
            try:
                found[queue] = read(queue, command, answer)
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


def _committed(group: str, queue: MessageQueue, *, may_be_zero: bool = True) -> Command:
    zero = None if may_be_zero else False
    header = QueryConsumerOffset(group, queue.topic, queue.queue_id, zero)
    return Command(RequestCode.QUERY_CONSUMER_OFFSET, fields=encode_fields(header))


def _first_time(queue: MessageQueue) -> Command:
    header = QueueRequest(queue.topic, queue.queue_id)
    return Command(RequestCode.GET_EARLIEST_MSG_STORETIME, fields=encode_fields(header))


def _timestamp(queue: MessageQueue, command: Command, answer: Command) -> int:
    what = f"the answer to {request_name(command.code)} of {queue}"
    return read_fields(TimestampResponse, answer, what).timestamp


def _offset(queue: MessageQueue, command: Command, answer: Command) -> int:
    what = f"the answer to {request_name(command.code)} of {queue}"
    return read_fields(OffsetResponse, answer, what).offset


def _bounds(first: int | CometError, end: int | CometError) -> QueueBounds | CometError:
    if isinstance(first, CometError):
        return first
    return end if isinstance(end, CometError) else QueueBounds(first, end)


async def _all(works: Iterable[Awaitable[None]]) -> None:
    for result in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
