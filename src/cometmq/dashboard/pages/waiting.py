"""The dashboard's page of messages that wait for a delay level, a time, or the end of their transaction.

They are in system topics. Delayed messages are sorted by due time. Of half messages the page shows those after the position of
the broker's own check, even if they have ended since. Another tab shows those discarded after too many checks or as too old.
"""

import asyncio
from typing import NamedTuple

from starlette.responses import Response

from cometmq.admin import DelayedMessage, DelayedMessages, DelayKind
from cometmq.dashboard.browsing import MessageRow, QueueSlice, browse_slices, row_of, time_slice
from cometmq.dashboard.inputs import WrongInput, page_of, text_of
from cometmq.dashboard.page_request import Page, PageRequest
from cometmq.dashboard.paging import table_page
from cometmq.model import properties as keys_of
from cometmq.model.errors import BrokerRefused, TopicNotFound
from cometmq.model.names import HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC, TRANSACTION_GROUP
from cometmq.model.text import in_quotes

KINDS = {
    "level": "Delay levels",
    "time": "Delivery times",
    "half": "Half messages",
    "discarded": "Discarded half messages",
}
_ROWS = 20
_LOOK_BYTES = 8 << 20


class WaitingRow(NamedTuple):
    """A row of the list of delayed messages.

    Attributes:
        delayed: The message, with its due time.
        row: What the lists of all pages show of a message.
    """

    delayed: DelayedMessage
    row: MessageRow


async def show_waiting(request: PageRequest) -> Response:
    """Return the HTML page of messages that wait for a delay level (default) or a time, or of half or discarded ones.

    Raises WrongInput for another kind.
    """
    kind = text_of(request.fields, "kind") or "level"
    if kind in list(DelayKind):
        return await _show_delayed(request, DelayKind(kind))
    if kind not in _SLICES:
        raise WrongInput(
            f"{in_quotes(kind, 40)} is not a kind of waiting messages; choose one of the tabs."
        )
    try:
        slices = await _SLICES[kind](request)
    except (TopicNotFound, BrokerRefused):
        # Brokers create these topics with their first message.
        slices = []
    browsed = await browse_slices(request.cluster.puller, slices, page_of(request.fields))
    # Every broker has these topics.
    missing = await request.admin.brokers.missing()
    return request.page(
        "waiting.html",
        "Delayed and half",
        section="waiting",
        kind=kind,
        kinds=KINDS,
        browsed=browsed,
        absent=[str(each) for each in missing],
        real_topic=lambda message: message.properties.get(keys_of.REAL_TOPIC, ""),
        producer_of=lambda message: message.properties.get(keys_of.PRODUCER_GROUP, ""),
    )


async def _show_delayed(request: PageRequest, kind: DelayKind) -> Response:
    """Return the HTML page of messages waiting for a level or a time, next due first; starts no read after 8 MiB."""
    try:
        found = await request.admin.messages.delayed(kind, look_bytes=_LOOK_BYTES)
    except TopicNotFound:  # A Java broker creates the timer's topic with its first message.
        found = DelayedMessages([])
    part = table_page(found.messages, page_of(request.fields), rows=_ROWS)
    return request.page(
        "delayed.html",
        "Delayed and half",
        section="waiting",
        kind=kind,
        kinds=KINDS,
        part=part,
        rows=[WaitingRow(each, row_of(each.message)) for each in part.rows],
        unread=found.unread,
        absent=sorted(map(str, found.absent)),
    )


async def _of_halves(request: PageRequest) -> list[QueueSlice]:
    """Return the offsets of half messages that the broker's own check has not passed yet, a range for each queue."""
    puller = request.cluster.puller
    passed = await request.admin.offsets.committed(TRANSACTION_GROUP, HALF_TOPIC)
    whole = await asyncio.gather(*(time_slice(puller, each, None, None) for each in passed))
    return [
        each._replace(begin=min(max(passed[each.queue] or 0, each.begin), each.end))
        for each in whole
    ]


async def _of_discarded(request: PageRequest) -> list[QueueSlice]:
    puller = request.cluster.puller
    queues = await puller.queues(TRANS_CHECK_MAX_TIME_TOPIC)
    return await asyncio.gather(*(time_slice(puller, each, None, None) for each in queues))


_SLICES = {"half": _of_halves, "discarded": _of_discarded}

PAGES = (Page("/waiting", show_waiting),)
