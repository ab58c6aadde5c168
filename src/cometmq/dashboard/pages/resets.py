"""Web pages to reset a group's offsets in a topic: a preview of each queue, then the reset."""

import asyncio

from starlette.responses import Response

from cometmq.dashboard.escaping import moment
from cometmq.dashboard.inputs import WrongInput, needed, text_of, time_of
from cometmq.dashboard.page_request import Page, PageRequest
from cometmq.dashboard.pages.groups import known_group
from cometmq.model.text import in_quotes, plural

EARLIEST, LATEST, TIME = "earliest", "latest", "time"


async def show_preview(request: PageRequest) -> Response:
    """Return the HTML page with the moves that a reset would make now in each readable queue of a topic; it changes nothing."""
    state = await known_group(request)
    topic = needed(request.fields, "topic", "topic")
    to, timestamp_ms = _target(request)
    offsets = request.admin.offsets
    held, moves = await asyncio.gather(
        request.admin.topics.offsets(topic),
        offsets.moves(state.name, await offsets.at(topic, timestamp_ms)),
    )
    return request.page(
        "reset.html",
        f"Reset {state.name}",
        section="groups",
        group=state,
        topic=topic,
        to=to,
        time="" if to != TIME else text_of(request.fields, "time"),
        where=_words(to, timestamp_ms),
        moves=[(each, held[each.queue]) for each in moves if each.queue in held],
    )


async def reset(request: PageRequest) -> Response:
    """Move a group in a topic to the position chosen in a form; return a redirect to the group's page."""
    name = needed(request.fields, "name", "group")
    topic = needed(request.fields, "topic", "topic")
    request.subject = f"{name} in {topic}"
    to, timestamp_ms = _target(request)
    moved = await request.admin.offsets.reset(name, topic, timestamp_ms)
    return request.go(
        "/group",
        f"The group {name} continues {_words(to, timestamp_ms)} in {len(moved)} {plural(len(moved), 'queue')} of "
        f"topic {topic}.",
        name=name,
    )


def _target(request: PageRequest) -> tuple[str, int | None]:
    """Return the target of a reset, "earliest", "latest" or "time", and its time: 0, None, or ms since 1970.

    Raises WrongInput for another choice, or if the time is missing or invalid.
    """
    to = text_of(request.fields, "to") or EARLIEST
    if to == EARLIEST:
        return to, 0
    if to == LATEST:
        return to, None
    if to != TIME:
        raise WrongInput(f"{in_quotes(to, 40)} is not a position; choose one from the list.")
    timestamp_ms = time_of(request.fields, "time", "The time")
    if timestamp_ms is None:
        raise WrongInput("Enter the time from which the group is to continue.")
    return to, timestamp_ms


def _words(to: str, timestamp_ms: int | None) -> str:
    if to == EARLIEST:
        return "at the first message"
    return (
        "at the end"
        if timestamp_ms is None
        else f"at the first message stored at {moment(timestamp_ms)} or later"
    )


PAGES = (
    Page("/group/preview", show_preview),
    Page("/group/reset", reset, "reset offsets", show_preview),
)
