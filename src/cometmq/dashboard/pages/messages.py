"""Web pages of messages: search by time, key or id; one message, its body, why a group has not consumed it; resending.

The address of a message is its position (topic, broker, queue, offset). An offset message id names a host, which is
queried only if it is a registered broker (`MessageQueries.view`).
"""

import asyncio
from collections.abc import Sequence

from starlette.responses import Response

from cometmq import MessageQueue, StoredMessage
from cometmq.admin import Explanation
from cometmq.dashboard.bodies import KINDS, body_view
from cometmq.dashboard.browsing import MessageRow, browse, row_of
from cometmq.dashboard.inputs import (
    PageMissing,
    WrongInput,
    needed,
    number_of,
    page_of,
    text_of,
    time_of,
)
from cometmq.dashboard.page_request import Page, PageRequest
from cometmq.model.errors import CometError
from cometmq.model.names import TRACE_TOPIC, is_derived_topic, is_system_topic
from cometmq.model.text import in_quotes

BY_TIME, BY_KEY, BY_ID = "time", "key", "id"
_KEY_ROWS_MAX = 64


async def show_messages(request: PageRequest) -> Response:
    """Return the HTML page to search messages, with results: 20 a page by time, up to 64 by key, or one by id."""
    fields = request.fields
    by = text_of(fields, "by") or BY_TIME
    topic = text_of(fields, "topic")
    rows: Sequence[MessageRow] = []
    browsed = None
    until_ms = None
    if by == BY_TIME and topic:
        until_ms = time_of(fields, "until", "Until")
        # All pages share one time range, so new messages do not shift their rows.
        until_ms = request.now_ms() if until_ms is None else until_ms
        from_ms = time_of(fields, "from", "From")
        if from_ms is not None and from_ms > until_ms:
            raise WrongInput("The time From is later than Until; swap them.")
        browsed = await browse(
            request.cluster.puller, topic, from_ms, until_ms, page_of(fields)
        )
        rows = browsed.rows
    elif by == BY_KEY and (topic or fields.get("key")):
        rows = await _by_key(request, needed(fields, "topic", "topic"))
    elif by == BY_ID and fields.get("id"):
        found = await _by_id(request, topic, needed(fields, "id", "message id"))
        rows = await _rows(request, [found])
    elif by not in (BY_TIME, BY_KEY, BY_ID):
        raise WrongInput(f"Search by time, key or id, not by {in_quotes(by, 40)}.")
    is_asked = browsed is not None or any(fields.get(name) for name in ("topic", "key", "id"))
    return request.page(
        "messages.html",
        "Messages",
        section="messages",
        by=by,
        topic=topic,
        rows=rows,
        browsed=browsed,
        until_ms=until_ms,
        is_asked=is_asked,
        most=_KEY_ROWS_MAX,
        topics=await _topics(request),
    )


async def _topics(request: PageRequest) -> list[str]:
    """Return up to 1000 topic names to suggest in a form, no system topics; empty if the query fails."""
    try:
        return [
            each for each in await request.admin.topics.list() if not is_system_topic(each)
        ][:1000]
    except CometError:
        return []


async def _by_key(request: PageRequest, topic: str) -> list[MessageRow]:
    key = needed(request.fields, "key", "key")
    found = await request.admin.messages.by_key(topic, key, count_max=_KEY_ROWS_MAX)
    return await _rows(request, found[::-1])


async def _rows(request: PageRequest, found: Sequence[StoredMessage]) -> list[MessageRow]:
    """Return list rows of messages found by key or id, in order; marks those that seem to be of a deleted topic."""
    deleted = await request.admin.messages.deleted(found)
    return [row_of(each, is_deleted=each.offset_message_id in deleted) for each in found]


async def _by_id(request: PageRequest, topic: str, message_id: str) -> StoredMessage:
    """Return the message with this id: a producer's, searched in `topic`, or an offset message id of a known broker.

    Without a topic, only the offset message id is tried. Raises PageMissing if none is found, TopicNotFound without a route.
    """
    found = await request.admin.messages.find(message_id, topic=topic or None)
    if found is not None:
        return found
    where = (
        f"in topic {in_quotes(topic, 100)}"
        if topic
        else "at any broker of this cluster; name its topic, too"
    )
    raise PageMissing(
        f"No message has the id {in_quotes(message_id, 100)} {where}. It may have been deleted with its file, or "
        "have another topic."
    )


async def show_message(request: PageRequest) -> Response:
    """Return the HTML page of a message; if a group is named, also if or why it has not consumed it, or an error."""
    message = await message_at(request)
    kind = text_of(request.fields, "as") or None
    if kind is not None and kind not in KINDS:
        raise WrongInput(f"Show a body as {', '.join(KINDS)}, not as {in_quotes(kind, 40)}.")
    groups, said = await asyncio.gather(
        _groups(request, message.topic), _explained(request, message)
    )
    explanation, trouble = said
    return request.page(
        "message.html",
        "Message",
        section="messages",
        message=message,
        body=body_view(message.body, kind),
        place={
            "topic": message.topic,
            "broker": message.queue.broker_name,
            "queue": message.queue.queue_id,
            "offset": message.queue_offset,
        },
        groups=groups,
        group=text_of(request.fields, "group"),
        explanation=explanation,
        trouble=trouble,
        may_resend=_may_resend(message),
    )


async def _groups(request: PageRequest, topic: str) -> list[str]:
    try:
        return await request.admin.topics.group_names(topic)
    except CometError:
        return []


async def _explained(
    request: PageRequest, message: StoredMessage
) -> tuple[Explanation | None, str]:
    group = text_of(request.fields, "group")
    if not group:
        return None, ""
    try:
        return await request.admin.messages.explain(
            message.message_id, group, topic=message.topic
        ), ""
    except CometError as error:
        return None, str(error)


async def message_at(request: PageRequest) -> StoredMessage:
    """Return the message at the position in a request (queue and offset: default 0). Raises the errors of `message_in`."""
    fields = request.fields
    queue = MessageQueue(
        needed(fields, "topic", "topic"),
        needed(fields, "broker", "broker"),
        number_of(fields, "queue", "Queue", least=0, most=2**31 - 1, default=0),
    )
    offset = number_of(fields, "offset", "Offset", least=0, most=2**63 - 1, default=0)
    return await message_in(request, queue, offset)


async def message_in(request: PageRequest, queue: MessageQueue, offset: int) -> StoredMessage:
    """Return the message at an offset of a queue. Raises TopicNotFound, or PageMissing without such a queue or message."""
    if queue not in await request.cluster.puller.queues(queue.topic):
        raise PageMissing(
            f"The topic {in_quotes(queue.topic, 100)} has no queue {queue.queue_id} at broker "
            f"{in_quotes(queue.broker_name, 100)}."
        )
    pull = await request.cluster.puller.fetch(queue, offset, max_count=1)
    for message in pull.messages:
        if message.queue_offset == offset:
            return message
    raise PageMissing(
        f"There is no message at offset {offset} of {queue}: the queue has the offsets {pull.min_offset} to "
        f"{pull.max_offset - 1}."
        if pull.max_offset > pull.min_offset
        else f"There is no message at offset {offset} of {queue}: the queue is empty."
    )


async def show_body(request: PageRequest) -> Response:
    """Return all bytes of a message's body as a download, so that no browser renders it."""
    message = await message_at(request)
    return Response(
        bytes(message.body),
        media_type="application/octet-stream",
        headers={
            "Content-Disposition": f'attachment; filename="message-{message.queue.queue_id}-{message.queue_offset}.bin"'
        },
    )


def _may_resend(message: StoredMessage) -> bool:
    return not (
        is_system_topic(message.topic)
        or is_derived_topic(message.topic)
        or message.topic == TRACE_TOPIC
    )


async def resend(request: PageRequest) -> Response:
    """Send a copy of a message to its topic, and return a redirect to the page of the new message.

    Raises WrongInput for a message of a system, retry, dead-letter or trace topic.
    """
    message = await message_at(request)
    request.subject = f"{message.message_id} of {message.topic}"
    if not _may_resend(message):
        raise WrongInput("Messages of system topics cannot be sent again.")
    sent = await request.admin.messages.resend(message)
    return request.go(
        "/message",
        f"Sent again: this is the new message, {sent.message_id}.",
        topic=message.topic,
        broker=sent.queue.broker_name,
        queue=sent.queue.queue_id,
        offset=sent.queue_offset,
    )


PAGES = (
    Page("/messages", show_messages),
    Page("/message", show_message),
    Page("/message/body", show_body),
    Page("/message/resend", resend, "resend message", show_message),
)
