"""Messages that wait: for a delay level, for a time, or for the end of their transaction.

They lie in the system's topics. Which of a delay level still wait is a range of time; of the timer what went through its topic in the last
days, with its time beside it; of half messages what the broker's own group has not checked yet.
"""

import asyncio
from collections.abc import Callable, Sequence

from starlette.responses import Response

from cometmq.client import StoredMessage
from cometmq.dashboard.browsing import MessagePage, QueueSlice, browse_slices, time_slice
from cometmq.dashboard.inputs import WrongInput, page_of, text_of
from cometmq.dashboard.page_request import Page, PageRequest
from cometmq.model import properties as keys_of
from cometmq.model.delay_levels import DELAY_LEVELS, delay_levels_ms
from cometmq.model.errors import BrokerRefused, TopicNotFound
from cometmq.model.names import (
    HALF_TOPIC,
    SCHEDULE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANSACTION_GROUP,
    WHEEL_TIMER_TOPIC,
)

KINDS = {
    "level": "Delay levels",
    "time": "At a time",
    "half": "Half messages",
    "discarded": "Discarded half messages",
}
# A message rolls through the timer's topic at least every two days (timerRollWindowSlot of RocketMQ 5.3.3).
# Those that every broker has, unless its messageDelayLevel names others.
_LEVELS_MS = delay_levels_ms(DELAY_LEVELS)
_TIMER_LOOK_BACK_MS = 3 * 86_400_000


async def show_waiting(request: PageRequest) -> Response:
    """One kind of them, the newest first."""
    kind = text_of(request.fields, "kind") or "level"
    if kind not in KINDS:
        raise WrongInput(f"Nothing waits by {kind[:40]!r}; choose one of the kinds.")
    try:
        slices = await _SLICES[kind](request)
    except (TopicNotFound, BrokerRefused):
        # Brokers make these topics with the first message that waits so.
        slices = []
    browsed: MessagePage = await browse_slices(
        request.cluster.puller, slices, page_of(request.fields)
    )
    return request.page(
        "waiting.html",
        "Delayed and half",
        section="waiting",
        kind=kind,
        kinds=KINDS,
        browsed=browsed,
        due_ms=_due_of(_LEVELS_MS),
        real_topic=lambda message: message.properties.get(keys_of.REAL_TOPIC, ""),
    )


async def _of_levels(request: PageRequest) -> list[QueueSlice]:
    """Queue n of the topic is level n + 1; what was stored within its delay still waits."""
    puller, now_ms = request.cluster.puller, request.now_ms()
    queues = [
        each for each in await puller.queues(SCHEDULE_TOPIC) if each.queue_id < len(_LEVELS_MS)
    ]
    return await asyncio.gather(
        *(time_slice(puller, each, now_ms - _LEVELS_MS[each.queue_id], None) for each in queues)
    )


async def _of_timer(request: PageRequest) -> list[QueueSlice]:
    puller, since_ms = request.cluster.puller, request.now_ms() - _TIMER_LOOK_BACK_MS
    queues = await puller.queues(WHEEL_TIMER_TOPIC)
    return await asyncio.gather(*(time_slice(puller, each, since_ms, None) for each in queues))


async def _of_halves(request: PageRequest) -> list[QueueSlice]:
    """Half messages that the group of the broker's own checks has not passed."""
    puller = request.cluster.puller
    passed = await request.admin.group_offsets(TRANSACTION_GROUP, HALF_TOPIC)
    whole = await asyncio.gather(*(time_slice(puller, each, None, None) for each in passed))
    return [
        each._replace(begin=min(max(passed[each.queue] or 0, each.begin), each.end))
        for each in whole
    ]


async def _of_discarded(request: PageRequest) -> list[QueueSlice]:
    puller = request.cluster.puller
    queues = await puller.queues(TRANS_CHECK_MAX_TIME_TOPIC)
    return await asyncio.gather(*(time_slice(puller, each, None, None) for each in queues))


_SLICES = {
    "level": _of_levels,
    "time": _of_timer,
    "half": _of_halves,
    "discarded": _of_discarded,
}


def _due_of(levels_ms: Sequence[int]) -> Callable[[StoredMessage], int]:
    """Tells when a message may be seen, ms since 1970; 0: its record does not say."""

    def due_ms(message: StoredMessage) -> int:
        if message.topic == SCHEDULE_TOPIC:
            return message.stored_ms + levels_ms[message.queue.queue_id]
        text = message.properties.get(keys_of.TIMER_OUT_MS, "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0

    return due_ms


PAGES = (Page("/waiting", show_waiting),)
