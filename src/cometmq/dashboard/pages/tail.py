"""The dashboard's live tail page: new messages of a topic. The browser keeps the position; the server has no state."""

import asyncio
from collections.abc import Mapping

from starlette.responses import Response

from cometmq import MessageQueue
from cometmq.dashboard.browsing import MessageRow, row_of
from cometmq.dashboard.inputs import WrongInput, needed, text_of
from cometmq.dashboard.page_request import Page, PageRequest
from cometmq.dashboard.places import read_place, text_of_place

QUEUES_MAX = 256
_ROWS_MAX = 100
# Lag of one queue at one refresh; if there is more, messages are skipped, and the page says how many.
_BEHIND_MAX = 500


async def show_tail(request: PageRequest) -> Response:
    """Return the HTML page of the live tail: a topic's messages from now on. Raises WrongInput for over 256 queues."""
    topic = text_of(request.fields, "topic")
    at = await _ends(request, topic) if topic else ""
    return request.page("tail.html", "Live tail", section="tail", topic=topic, at=at)


async def _ends(request: PageRequest, topic: str) -> str:
    puller = request.cluster.puller
    queues = await puller.queues(topic)
    if len(queues) > QUEUES_MAX:
        raise WrongInput(
            f"The topic has {len(queues)} queues; this page follows at most {QUEUES_MAX}. Use cometmq tail."
        )
    ends = await asyncio.gather(*map(puller.max_offset, queues))
    return _text(dict(zip(queues, ends, strict=True)))


async def show_next(request: PageRequest) -> Response:
    """Return the part of the live tail that refreshes itself, as HTML: the next messages of each queue, newest first.

    A refresh shows at most one pull of each queue. In a queue over 500 messages behind, it skips all but the last 25.
    """
    topic = needed(request.fields, "topic", "topic")
    places = _read(topic, request.fields.get("at", ""))
    parts = await asyncio.gather(*(_look(request, *each) for each in places.items()))
    rows = sorted(
        (row for part, _, _ in parts for row in part),
        key=lambda each: (each.message.stored_ms, each.message.queue_offset),
        reverse=True,
    )
    return request.page(
        "part_tail.html",
        "",
        topic=topic,
        rows=rows,
        at=_text(dict(zip(places, (each[1] for each in parts), strict=True))),
        passed_over=sum(each[2] for each in parts),
    )


async def _look(
    request: PageRequest, queue: MessageQueue, offset: int
) -> tuple[list[MessageRow], int, int]:
    """Read a queue from an offset; return rows of new messages, the next offset, and the number of skipped messages."""
    puller = request.cluster.puller
    pull = await puller.fetch(queue, offset)
    passed_over = 0
    if pull.max_offset - offset > _BEHIND_MAX:
        passed_over = pull.max_offset - _ROWS_MAX // 4 - offset
        pull = await puller.fetch(queue, offset + passed_over)
    rows = [row_of(message) for message in pull.messages[:_ROWS_MAX]]
    goes_on = rows[-1].message.queue_offset + 1 if rows else max(pull.next_offset, 0)
    return rows, goes_on, passed_over


def _text(places: Mapping[MessageQueue, int]) -> str:
    return ",".join(text_of_place(*each) for each in places.items())


def _read(topic: str, text: str) -> dict[MessageQueue, int]:
    parts = text.split(",")
    if len(parts) > QUEUES_MAX:
        raise WrongInput("The position in the live tail is not valid; load the page again.")
    return dict(read_place(topic, part) for part in parts)


PAGES = (
    Page("/tail", show_tail),
    Page("/part/tail", show_next, is_part=True),
)
