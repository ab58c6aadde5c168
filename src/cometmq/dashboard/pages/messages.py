"""Web pages of messages: search by time, key or id; one message, its body, why a group has not consumed it; sending it again.

The address of a message is its position (topic, broker, queue, offset). An offset message id names a host, which is
queried only if it is a registered broker (`MessageQueries.view`).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from starlette.responses import Response

from cometmq import MessageQueue, StoredMessage
from cometmq.admin import DirectResult, Explanation
from cometmq.dashboard.bodies import KINDS, body_view
from cometmq.dashboard.browsing import (
    FoundPage,
    MessageRow,
    browse_slices,
    row_of,
    search,
    time_slices,
)
from cometmq.dashboard.inputs import (
    TEXT_MAX,
    PageMissing,
    WrongInput,
    needed,
    number_of,
    page_of,
    text_of,
    time_of,
)
from cometmq.dashboard.page_request import Page, PageRequest
from cometmq.dashboard.paging import TablePage
from cometmq.model.errors import CometError
from cometmq.model.names import (
    TRACE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    is_derived_topic,
    is_system_topic,
)
from cometmq.model.text import in_quotes

FILTERS = ("tag", "property", "body")
BY_TIME, BY_KEY, BY_ID = "time", "key", "id"
_KEY_ROWS_MAX = 64


async def show_messages(request: PageRequest) -> Response:
    """Return the HTML page to search messages, with results: 20 a page by time, up to 64 by key, or one by id.

    By time, messages can be filtered by tag, property and text of the body, among up to 5,000 messages a page.
    """
    fields = request.fields
    by = text_of(fields, "by") or BY_TIME
    topic = text_of(fields, "topic")
    rows: Sequence[MessageRow] = []
    found: TablePage[MessageRow] | FoundPage | None = None
    until_ms = None
    if by == BY_TIME and topic:
        until_ms = time_of(fields, "until", "Until")
        # All pages share one time range, so new messages do not shift their rows.
        until_ms = request.now_ms() if until_ms is None else until_ms
        found = await _by_time(request, topic, until_ms)
        rows = found.rows
    elif by == BY_KEY and (topic or fields.get("key")):
        rows = await _by_key(request, needed(fields, "topic", "topic"))
    elif by == BY_ID and fields.get("id"):
        one = await _by_id(request, topic, needed(fields, "id", "message id"))
        rows = await _rows(request, [one])
    elif by not in (BY_TIME, BY_KEY, BY_ID):
        raise WrongInput(f"Search by time, key or id, not by {in_quotes(by, 40)}.")
    return request.page(
        "messages.html",
        "Messages",
        section="messages",
        by=by,
        topic=topic,
        rows=rows,
        browsed=found if isinstance(found, TablePage) else None,
        searched=found if isinstance(found, FoundPage) else None,
        filters={name: fields.get(name, "") for name in FILTERS},
        until_ms=until_ms,
        is_asked=any(fields.get(name) for name in ("topic", "key", "id")),
        most=_KEY_ROWS_MAX,
        topics=await _topics(request),
    )


async def _by_time(
    request: PageRequest, topic: str, until_ms: int
) -> TablePage[MessageRow] | FoundPage:
    """Return a page of the messages stored from the time in the field `from` to `until_ms`; with a filter, of those it selects."""
    fields, puller = request.fields, request.cluster.puller
    from_ms = time_of(fields, "from", "From")
    if from_ms is not None and from_ms > until_ms:
        raise WrongInput("The time From is later than Until; swap them.")
    is_wanted = _filter(fields)
    slices = await time_slices(puller, topic, from_ms, until_ms)
    if is_wanted is None:
        return await browse_slices(puller, slices, page_of(fields))
    begin = number_of(fields, "begin", "Begin", least=0, most=2**63 - 1, default=0)
    return await search(puller, slices, begin, is_wanted)


def _filter(fields: Mapping[str, str]) -> Callable[[StoredMessage], bool] | None:
    """Return whether a message has the tag, property and text of the body in the fields; None if all are empty."""
    tag, text = text_of(fields, "tag"), fields.get("body", "").encode()
    name, equals, value = (part.strip() for part in text_of(fields, "property").partition("="))
    if not (tag or text or name or equals):
        return None
    if len(text) > TEXT_MAX:
        raise WrongInput(f"Body has {len(text)} bytes; at most {TEXT_MAX} are allowed.")
    if equals and not name:
        raise WrongInput("The property has no name; write name, or name=value.")

    def is_wanted(message: StoredMessage) -> bool:
        return (
            (not tag or message.tag == tag)
            and (not name or name in message.properties)
            and (not equals or message.properties[name] == value)
            and text in bytes(message.body)
        )

    return is_wanted


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
    found = await request.admin.messages.by_key(topic, key, max_count=_KEY_ROWS_MAX)
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
        place=_place(message.queue, message.queue_offset),
        groups=groups,
        group=text_of(request.fields, "group"),
        explanation=explanation,
        trouble=trouble,
        may_resend=_may_resend(message),
        may_resume=_may_resume(message),
    )


def _place(queue: MessageQueue, offset: int) -> dict[str, object]:
    """Return the fields of the address of a message."""
    return {
        "topic": queue.topic,
        "broker": queue.broker_name,
        "queue": queue.queue_id,
        "offset": offset,
    }


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
    """Send a copy of a message to its topic, or let a member of the group `to` consume it; return a redirect to a message.

    Raises WrongInput for a message of a system, retry, dead-letter or trace topic, or if the group does not consume it.
    """
    message = await message_at(request)
    request.subject = f"{message.message_id} of {message.topic}"
    if not _may_resend(message):
        raise WrongInput("Messages of system topics cannot be sent again.")
    if group := text_of(request.fields, "to"):
        request.subject += f" to {group}"
        note = await _consumed(request, message, group)
        queue, offset = message.queue, message.queue_offset
    else:
        sent = await request.admin.messages.resend(message)
        note = f"Sent again: this is the new message, {sent.message_id}."
        queue, offset = sent.queue, sent.queue_offset
    return request.go("/message", note, **_place(queue, offset))


async def _consumed(request: PageRequest, message: StoredMessage, group: str) -> str:
    """Let a member of a group consume a message now, and return a sentence that it has. Raises WrongInput if it has not."""
    outcome = await request.admin.messages.consume(message, group)
    if outcome is None:
        raise WrongInput(f"The group {in_quotes(group, 100)} has no connected member.")
    if outcome.result not in (DirectResult.SUCCESS, DirectResult.COMMIT):
        raise WrongInput(
            f"The member of group {in_quotes(group, 100)} did not consume it: {outcome.result}"
            + (f", {outcome.remark}" if outcome.remark else "")
        )
    return f"A member of group {group} has consumed it, in {outcome.spent_ms} ms."


def _may_resume(message: StoredMessage) -> bool:
    return message.topic == TRANS_CHECK_MAX_TIME_TOPIC


async def resume(request: PageRequest) -> Response:
    """Let the broker check a discarded half message again, and return a redirect to it.

    Raises WrongInput for another message.
    """
    message = await message_at(request)
    request.subject = message.offset_message_id
    if not _may_resume(message):
        raise WrongInput("Only a half message that a broker discarded can be checked again.")
    await request.admin.transactions.resume(message.offset_message_id)
    note = "The broker will check this transaction again."
    return request.go("/message", note, **_place(message.queue, message.queue_offset))


PAGES = (
    Page("/messages", show_messages),
    Page("/message", show_message),
    Page("/message/body", show_body),
    Page("/message/resend", resend, "resend message", show_message),
    Page("/message/resume", resume, "resume transaction", show_message),
)
