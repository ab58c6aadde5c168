"""Messages that wait on the brokers: for their delay level, or for their time.

They lie in the system's topics, and those that still wait are among the last: of a level what was stored
within its delay, of the timer what went through its topic within the last days. So they are pulled, from
Java's brokers as from ours, and nothing is kept about them anywhere else.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from cometmq.codec.recall_handle import RecallHandle, encode_recall_handle
from cometmq.model import properties as keys_of
from cometmq.model.message import StoredMessage
from cometmq.model.names import SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC
from cometmq.model.queue import MessageQueue

if TYPE_CHECKING:
    from cometmq.client.consumer.pull.pull_consumer import AsyncPullConsumer

# A message rolls through the timer's topic at least every two days (timerRollWindowSlot).
_TIMER_LOOK_BACK_MS = 3 * 86_400_000
_SLOT_MS = 1000


class DelayedMessage(NamedTuple):
    """A message that waits.

    Attributes:
        due_ms: when consumers may see it, ms since 1970; of the timer to the second.
        queue: where it goes then.
        level: its delay level; 0: it waits for a time.
        message: as it lies in the system's topic.
        recall_handle: by which it can be taken back (`AsyncAdmin.recall`); None with a level.
    """

    due_ms: int
    queue: MessageQueue
    level: int
    message: StoredMessage
    recall_handle: str | None


async def delayed_messages(
    consumer: "AsyncPullConsumer", *, now_ms: int, levels_ms: Sequence[int]
) -> list[DelayedMessage]:
    """All messages that wait, the next one first.

    Args:
        consumer: reads; no offset of its group moves.
        now_ms: wall time.
        levels_ms: delay of each level of the brokers (messageDelayLevel).

    Raises:
        TopicNotFound: no broker is there.
        BrokerRefused, BrokerNotFound, NetError, CodecError: no answer.
    """
    found = [
        *await _of_levels(consumer, now_ms, levels_ms),
        *await _of_timer(consumer, now_ms),
    ]
    return sorted(found, key=lambda each: each.due_ms)


async def _of_levels(
    consumer: "AsyncPullConsumer", now_ms: int, levels_ms: Sequence[int]
) -> list[DelayedMessage]:
    async def of_queue(queue: MessageQueue) -> list[DelayedMessage]:
        if queue.queue_id >= len(levels_ms):
            return []
        delay_ms = levels_ms[queue.queue_id]
        return [
            DelayedMessage(
                message.stored_ms + delay_ms,
                _real_queue(message),
                queue.queue_id + 1,
                message,
                None,
            )
            for message in await _stored_since(consumer, queue, now_ms - delay_ms)
            if message.stored_ms + delay_ms > now_ms
        ]

    queues = await consumer.queues(SCHEDULE_TOPIC)
    parts = await asyncio.gather(*map(of_queue, queues))
    return [each for part in parts for each in part]


async def _of_timer(consumer: "AsyncPullConsumer", now_ms: int) -> list[DelayedMessage]:
    waiting: dict[tuple[str, str], DelayedMessage] = {}
    for queue in await consumer.queues(WHEEL_TIMER_TOPIC):
        for message in await _stored_since(consumer, queue, now_ms - _TIMER_LOOK_BACK_MS):
            properties = message.properties
            taken_back = properties.get(keys_of.TIMER_DEL_UNIQKEY)
            if taken_back is not None:
                topic, _, key = taken_back.partition("+")
                waiting.pop((topic, key), None)
                continue
            out_text = properties.get(keys_of.TIMER_OUT_MS, "")
            out_ms = int(out_text) if out_text.isdecimal() else 0
            if out_ms + _SLOT_MS <= now_ms:
                continue
            real = _real_queue(message)
            handle = RecallHandle(
                real.topic, queue.broker_name, str(out_ms + 1), message.message_id
            )
            # What rolled lies there several times; the last one counts.
            waiting[real.topic, message.message_id] = DelayedMessage(
                out_ms + _SLOT_MS, real, 0, message, encode_recall_handle(handle)
            )
    return list(waiting.values())


async def _stored_since(
    consumer: "AsyncPullConsumer", queue: MessageQueue, time_ms: int
) -> list[StoredMessage]:
    """The messages of a queue from a time on."""
    offset, end = (
        await consumer.offset_by_time(queue, time_ms),
        await consumer.max_offset(queue),
    )
    found: list[StoredMessage] = []
    while offset < end:
        pull = await consumer.fetch(queue, offset)
        found += pull.messages
        if pull.next_offset <= offset:
            break
        offset = pull.next_offset
    return found


def _real_queue(message: StoredMessage) -> MessageQueue:
    """The queue to which a waiting message goes when it is due."""
    topic = message.properties.get(keys_of.REAL_TOPIC, "")
    queue = message.properties.get(keys_of.REAL_QID, "")
    return MessageQueue(
        topic, message.queue.broker_name, int(queue) if queue.isdecimal() else 0
    )
