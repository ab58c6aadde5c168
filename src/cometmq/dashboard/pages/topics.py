"""Web pages of topics: the list, one topic with its queues and consumer groups, changes to a topic, and sending."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from starlette.responses import Response

from cometmq import Message
from cometmq.admin import AbsentBroker, GroupState, TopicConfig, TopicKind, TopicState, Total
from cometmq.dashboard.inputs import (
    WrongInput,
    changed_fields,
    check_seen,
    check_sure,
    hex_of,
    needed,
    number_of,
    order_of,
    page_of,
    text_of,
)
from cometmq.dashboard.page_request import Page, PageRequest
from cometmq.dashboard.paging import TablePage, table_page
from cometmq.model.errors import CometError
from cometmq.model.flags import PERM_READ, PERM_READ_WRITE, PERM_WRITE
from cometmq.model.properties import split_keys
from cometmq.model.text import in_quotes

# Each row of a page costs one request to a broker, and sorting by a number one for each topic of the list.
_ROWS = 50
_SORTED_MAX = 2_000
_GROUPS_MAX = 50
_QUEUES_MAX = 65_536
_BODY_MAX = 1_000_000
PERMS = {
    PERM_READ_WRITE: "read and write",
    PERM_READ: "read only",
    PERM_WRITE: "write only",
    0: "neither",
}


class TopicRow(NamedTuple):
    """A topic in the list; if its state cannot be queried, `stats` is None and `error` says why."""

    name: str
    kind: str
    stats: TopicState | None
    error: str

    @property
    def messages(self) -> Total | None:
        """Number of messages in all known queues of the topic, and reasons why there may be more; None if unknown."""
        return None if self.stats is None else self.stats.messages

    @property
    def access(self) -> str:
        """The permissions in words, several if brokers differ; empty if all are read and write, or none is known."""
        perms = {each.perm for each in self.stats.routed} if self.stats else set()
        words = sorted(PERMS.get(perm, str(perm)) for perm in perms)
        return "" if perms <= {PERM_READ_WRITE} else ", ".join(words)

    @property
    def updated_ms(self) -> int:
        """Store time of the topic's last message, ms since 1970; 0 if there is none or it is unknown."""
        return self.stats.last_ms if self.stats else 0


# Keys to sort topics by; topics with the same key, and those without a state, are sorted by name.
_ORDERS: dict[str, Callable[[TopicRow], float]] = {
    "name": lambda _: 0,
    "messages": lambda row: -row.messages.known if row.messages else 1,
    "rate": lambda row: -row.stats.put_rate if row.stats else 1,
    "last": lambda row: -row.updated_ms,
}


async def show_topics(request: PageRequest) -> Response:
    """Return an HTML page of up to 50 topics, sorted as requested, by default by name.

    System, retry and dead-letter topics are listed only on request. Raises WrongInput for an unknown order, or if more
    than 2,000 topics are to be sorted by their numbers.
    """
    find = text_of(request.fields, "find")
    sort = order_of(request.fields, _ORDERS)
    is_all = bool(request.fields.get("all"))
    missing = await request.admin.brokers.missing()
    kinds = {
        name: kind
        for name, kind in (await request.admin.topics.kinds()).items()
        if find.lower() in name.lower() and (is_all or kind is TopicKind.MESSAGES)
    }
    names = list(kinds)
    part: TablePage[Any]
    if sort == "name":
        part = table_page(names, page_of(request.fields), rows=_ROWS)
        rows: Sequence[TopicRow] = await _rows(request, part.rows, kinds, missing)
    elif len(names) > _SORTED_MAX:
        raise WrongInput(
            f"{len(names)} topics are too many to sort by their numbers; find some first, at most {_SORTED_MAX}."
        )
    else:
        every = await _rows(request, names, kinds, missing)
        every.sort(key=lambda row: (_ORDERS[sort](row), row.name))
        part = table_page(every, page_of(request.fields), rows=_ROWS)
        rows = part.rows
    return request.page(
        "topics.html",
        "Topics",
        section="topics",
        part=part,
        rows=rows,
        absent=_absent(missing, rows),
        find=find,
        is_all=is_all,
        sort=sort,
    )


def _absent(missing: Sequence[AbsentBroker], rows: Sequence[TopicRow]) -> list[str]:
    silent = (each for row in rows if row.stats for each in row.stats.absent)
    return sorted({str(each) for each in (*missing, *silent)})


async def _rows(
    request: PageRequest,
    names: Sequence[str],
    kinds: Mapping[str, TopicKind],
    missing: Sequence[AbsentBroker],
) -> list[TopicRow]:
    made: list[TopicRow] = []
    for start in range(0, len(names), _ROWS):
        some = names[start : start + _ROWS]
        made += await asyncio.gather(
            *(_row(request, name, kinds[name], missing) for name in some)
        )
    return made


async def _row(
    request: PageRequest, name: str, kind: str, missing: Sequence[AbsentBroker]
) -> TopicRow:
    try:
        return TopicRow(name, kind, await request.admin.topics.show(name, missing), "")
    except CometError as error:
        return TopicRow(name, kind, None, str(error))


async def show_new_topic(request: PageRequest) -> Response:
    """Return the HTML page for a new topic; only for admins it has the form."""
    return request.page("topic_new.html", "New topic", section="topics", perms=PERMS)


async def show_topic(request: PageRequest) -> Response:
    """Return the HTML page of a topic: queues, settings, groups; with forms for admins if it is for users' messages."""
    name = needed(request.fields, "name", "topic")
    topics = request.admin.topics
    configs, stats, kinds, groups = await asyncio.gather(
        topics.configs(name), topics.show(name), topics.kinds(), _groups(request, name)
    )
    row = TopicRow(name, kinds.get(name, TopicKind.SYSTEM), stats, "")
    return request.page(
        "topic.html",
        name,
        section="topics",
        name=name,
        row=row,
        absent=_absent((), [row]),
        configs=configs,
        config=next(iter(configs.values()), None),
        seen=_fingerprint(configs),
        groups=groups,
        hanging=request.watcher.hanging_groups(),
        most_groups=_GROUPS_MAX,
        perms=PERMS,
        is_ours=row.kind == TopicKind.MESSAGES,
    )


async def _groups(request: PageRequest, topic: str) -> list[GroupState] | str:
    """Return the state of up to 50 groups that consume the topic, in that topic, or the reason why they are unknown."""
    try:
        there = await request.admin.topics.groups(topic, max_count=_GROUPS_MAX)
    except CometError as error:
        return str(error)
    return sorted(there, key=lambda each: (-each.lag.known, each.name))


# --- actions


async def create_topic(request: PageRequest) -> Response:
    """Create the topic of a form at every master; redirect to its page. Raises WrongInput if the nameserver lists it."""
    request.subject = name = needed(request.fields, "name", "topic")
    if name in await request.admin.topics.list():
        raise WrongInput(f"The topic {in_quotes(name, 100)} exists; change it on its own page.")
    new = _settings(request, TopicConfig(name))
    await request.admin.topics.create(
        name, queues=new["write_queues"], read_queues=new["read_queues"], perm=new["perm"]
    )
    return request.go("/topic", f"The topic {name} is created.", name=name)


async def change_topic(request: PageRequest) -> Response:
    """Change queues or permission of a topic, at each master that has it, and return a redirect to its page.

    Raises WrongInput, and changes nothing, if its queues, permission or brokers changed since the form was loaded.
    """
    request.subject = name = needed(request.fields, "name", "topic")
    configs = await request.admin.topics.configs(name)
    check_seen(request.fields, "topic", name, _fingerprint(configs))
    before = next(iter(configs.values()))
    await request.admin.topics.set(name, changed_fields(before, _settings(request, before)))
    return request.go("/topic", f"The topic {name} is changed.", name=name)


def _settings(request: PageRequest, before: TopicConfig) -> dict[str, int]:
    """Return queue counts and permission of a form, by field of `TopicConfig`; empty ones stay as in `before`."""
    fields = request.fields
    read, write = (
        number_of(fields, field, what, least=min(1, known), most=_QUEUES_MAX, default=known)
        for field, what, known in (
            ("read", "Queues to read from", before.read_queues),
            ("write", "Queues to write to", before.write_queues),
        )
    )
    perm = number_of(fields, "perm", "Permission", least=0, most=15, default=before.perm)
    if perm not in (*PERMS, before.perm):
        raise WrongInput(f"{perm} is not a permission of a topic; choose one from the list.")
    return {"read_queues": read, "write_queues": write, "perm": perm}


async def delete_topic(request: PageRequest) -> Response:
    """Delete a topic with messages at each master; redirect to the list. Raises WrongInput if its name is not typed."""
    request.subject = name = needed(request.fields, "name", "topic")
    check_sure(request.fields, "topic", name)
    await request.admin.topics.delete(name)
    return request.go("/topics", f"The topic {name} is deleted, with its messages.")


async def send_message(request: PageRequest) -> Response:
    """Send the message of a form to a topic; return a redirect to the topic's page, which shows where it was stored.

    Raises WrongInput if the body is empty, too large or not hexadecimal as declared, or a property is not name=value.
    """
    request.subject = name = needed(request.fields, "name", "topic")
    text = request.fields.get("body", "")
    # Browsers send all line breaks as CR LF.
    text = text.replace("\r\n", "\n")
    body = hex_of(text, "The body") if request.fields.get("hex") else text.encode()
    if not body:
        raise WrongInput("The body is empty; enter one.")
    if len(body) > _BODY_MAX:
        raise WrongInput(f"The body has {len(body)} bytes; this page sends up to {_BODY_MAX}.")
    message = Message(
        name,
        body,
        tag=text_of(request.fields, "tag") or None,
        keys=split_keys(text_of(request.fields, "keys")),
        properties=_properties(request.fields),
    )
    sent = await request.cluster.send(message)
    return request.go(
        "/topic",
        f"Stored in queue {sent.queue.queue_id} of {sent.queue.broker_name} at offset {sent.queue_offset}: "
        f"{sent.message_id} ({sent.status}).",
        name=name,
    )


def _properties(fields: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for line in fields.get("properties", "").splitlines():
        if line.strip():
            name, equals, value = line.partition("=")
            if not equals or not name.strip():
                raise WrongInput(
                    f"{in_quotes(line, 60)} is not a property; write name=value, one per line."
                )
            found[name.strip()] = value.strip()
    return found


def _fingerprint(configs: Mapping[str, TopicConfig]) -> str:
    """Return a text of a topic's brokers, queue counts and permissions; a form carries it, to detect changes."""
    return ";".join(
        f"{broker}:{each.read_queues},{each.write_queues},{each.perm}"
        for broker, each in sorted(configs.items())
    )


PAGES = (
    Page("/topics", show_topics),
    Page("/topics/new", show_new_topic),
    Page("/topic", show_topic),
    Page("/topics/create", create_topic, "create topic", show_new_topic),
    Page("/topic/change", change_topic, "change topic", show_topic),
    Page("/topic/delete", delete_topic, "delete topic", show_topic),
    Page("/topic/send", send_message, "send message", show_topic),
)
