"""Search for messages that wait on the brokers for their delay level or delivery time.

The latest messages of the system topics are pulled, which Java brokers permit, too: messages of a level were stored
within its delay, and those of the timer within the last days.
"""

import asyncio
import enum
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from cometmq.client.admin.absent import (
    AbsentBroker,
    missing_brokers,
    queues_that_answer,
    those_that_answer,
)
from cometmq.client.admin.queries import read_range
from cometmq.client.api.asking import side_by_side
from cometmq.client.api.broker import BrokerApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.pull.pull_consumer import AsyncPullConsumer
from cometmq.codec.recall_handle import RecallHandle, encode_recall_handle
from cometmq.model import properties as keys_of
from cometmq.model.delay_levels import DELAY_LEVELS, delay_levels_ms
from cometmq.model.errors import ConnectError, TopicNotFound
from cometmq.model.message import StoredMessage
from cometmq.model.names import SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC
from cometmq.model.queue import MessageQueue

# The timer stores a waiting message again at least every two days (timerRollWindowSlot).
_TIMER_LOOK_BACK_MS = 3 * 86_400_000
_SLOT_MS = 1000
_LEVELS_KEY = "messageDelayLevel"
_AT_ONCE = 256  # Messages.
_FIXED_BYTES = 512  # Size of a message in memory in addition to body and properties.
_DIGITS_MAX = 15  # Of a number in a property, which any client can set.


class DelayKind(enum.StrEnum):
    """Kinds of delayed messages: waiting for a delay level, or for a time."""

    LEVEL = "level"
    TIME = "time"


class DelayedMessage(NamedTuple):
    """A message that waits on a broker for its delay level or delivery time.

    Attributes:
        due_ms: Time when consumers may receive it, ms since 1970; with a precision of seconds for the timer.
        queue: Queue to which it will be delivered.
        level: Delay level; 0: it waits for a time.
        message: The message as stored in the system topic.
        recall_handle: Handle for cancelling it (`AsyncAdmin.messages.recall`); None with a level.
    """

    due_ms: int
    queue: MessageQueue
    level: int
    message: StoredMessage
    recall_handle: str | None


class DelayedMessages(NamedTuple):
    """The messages that wait on brokers for their delay level or delivery time.

    Attributes:
        messages: Messages that are not due yet, sorted by due time.
        unread: Number of messages within the searched ranges that were not read; some of them may wait, too.
        absent: Brokers on which more of them may wait, but which do not answer or left their nameserver.
    """

    messages: list[DelayedMessage]
    unread: int = 0
    absent: tuple[AbsentBroker, ...] = ()


class DelayedFinder:
    """A finder of messages that wait on brokers for their delay level or delivery time, for one client.

    Args:
        consumer: Reads messages; no offset of its group changes.
        instance: Queries the brokers for their delay levels.
        levels: Delay levels of all brokers, as in messageDelayLevel; None: query each broker for its own.
        look_bytes: Approximate total size of the messages to read, bytes; None: no limit.
    """

    def __init__(
        self,
        consumer: AsyncPullConsumer,
        instance: ClientInstance,
        *,
        levels: str | None,
        look_bytes: int | None,
    ) -> None:
        self._consumer = consumer
        self._instance = instance
        self._now_ms = instance.clock.now_ms()
        self._levels = levels
        self._bytes_left = float("inf") if look_bytes is None else look_bytes

    async def find(self, kind: DelayKind | None) -> DelayedMessages:
        """Return the messages of a kind, or of both (None), that are not due yet, sorted by due time.

        The result also has the number of messages that were not read (`look_bytes`), and the brokers that do not answer.
        Raises TopicNotFound if no registered broker has the delay topic, SettingsError if the levels are malformed,
        NetError if the nameserver does not answer, and BrokerRefused or CodecError if a broker refuses or its answer is
        malformed.
        """
        parts = [] if kind is DelayKind.TIME else [await self._of_levels()]
        parts += [] if kind is DelayKind.LEVEL else [await self._of_timer()]
        return _joined(parts)

    async def _of_levels(self) -> DelayedMessages:
        absent = await self._missing()
        queues = await self._consumer.queues(SCHEDULE_TOPIC)
        levels = await self._levels_of({each.broker_name for each in queues}, absent)
        wanted = [
            each for each in queues if each.queue_id < len(levels.get(each.broker_name, ()))
        ]
        return await self._of_queues(
            lambda each: self._of_level(each, levels[each.broker_name][each.queue_id]),
            wanted,
            absent,
        )

    async def _of_timer(self) -> DelayedMessages:
        absent = await self._missing()
        try:
            queues = await self._consumer.queues(WHEEL_TIMER_TOPIC)
        except TopicNotFound:  # A Java broker creates it with its first message.
            return DelayedMessages([], absent=tuple(absent.values()))
        return await self._of_queues(self._of_timer_queue, queues, absent)

    async def _missing(self) -> dict[str, AbsentBroker]:
        """Return the brokers that left, by name: each broker has the topics of delayed messages."""
        return {each.name: each for each in await missing_brokers(self._instance)}

    async def _of_queues(
        self,
        look: Callable[[MessageQueue], Awaitable[DelayedMessages]],
        queues: Sequence[MessageQueue],
        absent: dict[str, AbsentBroker],
    ) -> DelayedMessages:
        """Search each queue with `look`, and return the messages of those whose broker answers; brokers that do not join `absent`."""
        answers = await side_by_side(look, queues)
        found = _joined(queues_that_answer(queues, answers, absent).values())
        return found._replace(absent=tuple(absent.values()))

    async def _levels_of(
        self, brokers: set[str], absent: dict[str, AbsentBroker]
    ) -> dict[str, tuple[int, ...]]:
        """Return delay levels, ms, by broker: given ones, or as brokers report; silent ones join `absent` instead."""
        if self._levels is not None:
            return dict.fromkeys(brokers, delay_levels_ms(self._levels))
        addresses = await self._instance.nameserver_api.readable_brokers()
        api = BrokerApi(self._instance)

        async def ask(name: str) -> tuple[int, ...]:
            if name not in addresses:
                raise ConnectError(
                    "no member of it is registered, so its delay levels are not known; start it, or name them (--levels)"
                )
            settings = await api.settings(addresses[name])
            return delay_levels_ms(settings.values.get(_LEVELS_KEY, DELAY_LEVELS))

        names = sorted(brokers)
        return those_that_answer(names, await side_by_side(ask, names), absent)

    async def _of_level(self, queue: MessageQueue, delay_ms: int) -> DelayedMessages:
        begin, end = await self._range_since(queue, self._now_ms - delay_ms)
        stored: list[StoredMessage] = []
        while begin < end and self._bytes_left > 0:
            stop = min(begin + _AT_ONCE, end)
            stored += await self._read(queue, begin, stop)
            begin = stop
        found = [
            DelayedMessage(
                message.stored_ms + delay_ms,
                _real_queue(message),
                queue.queue_id + 1,
                message,
                None,
            )
            for message in stored
            if message.stored_ms + delay_ms > self._now_ms
        ]
        return DelayedMessages(found, end - begin)

    async def _of_timer_queue(self, queue: MessageQueue) -> DelayedMessages:
        first, end = await self._range_since(queue, self._now_ms - _TIMER_LOOK_BACK_MS)
        # Read the latest first: a message is cancelled by one that is stored after it.
        parts: deque[list[StoredMessage]] = deque()
        while first < end and self._bytes_left > 0:
            begin = max(end - _AT_ONCE, first)
            parts.appendleft(await self._read(queue, begin, end))
            end = begin
        waiting: dict[tuple[str, str], DelayedMessage] = {}
        for message in chain.from_iterable(parts):
            taken_back = message.properties.get(keys_of.TIMER_DEL_UNIQKEY)
            if taken_back is not None:
                topic, _, key = taken_back.partition("+")
                waiting.pop((topic, key), None)
                continue
            out_ms = _number(message, keys_of.TIMER_OUT_MS)
            if out_ms + _SLOT_MS <= self._now_ms:
                continue
            real = _real_queue(message)
            handle = RecallHandle(
                real.topic, queue.broker_name, str(out_ms + 1), message.message_id
            )
            # A message that the timer stored again occurs several times; the last one counts.
            waiting[real.topic, message.message_id] = DelayedMessage(
                out_ms + _SLOT_MS, real, 0, message, encode_recall_handle(handle)
            )
        return DelayedMessages(list(waiting.values()), end - first)

    async def _range_since(self, queue: MessageQueue, time_ms: int) -> tuple[int, int]:
        """Return the offset of a queue at a time (ms since 1970), at most the queue's end, and that end."""
        begin, end = await asyncio.gather(
            self._consumer.offset_by_time(queue, time_ms), self._consumer.max_offset(queue)
        )
        return min(begin, end), end

    async def _read(self, queue: MessageQueue, begin: int, end: int) -> list[StoredMessage]:
        found = await read_range(self._consumer, queue, begin, end)
        self._bytes_left -= sum(map(_size, found))
        return found


def _joined(parts: Iterable[DelayedMessages]) -> DelayedMessages:
    parts = list(parts)
    messages = [each for part in parts for each in part.messages]
    messages.sort(key=lambda each: each.due_ms)
    absent = {each.name: each for part in parts for each in part.absent}
    return DelayedMessages(messages, sum(part.unread for part in parts), tuple(absent.values()))


def _real_queue(message: StoredMessage) -> MessageQueue:
    topic = message.properties.get(keys_of.REAL_TOPIC, "")
    return MessageQueue(topic, message.queue.broker_name, _number(message, keys_of.REAL_QID))


def _size(message: StoredMessage) -> int:
    texts = sum(len(key) + len(text) for key, text in message.properties.items())
    return _FIXED_BYTES + len(message.body) + texts


def _number(message: StoredMessage, key: str) -> int:
    text = message.properties.get(key, "")
    return int(text) if text.isdecimal() and len(text) <= _DIGITS_MAX else 0
