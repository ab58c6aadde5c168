"""Web pages of dead letters: groups with a dead-letter topic, dead letters of one group, their replay, export and deletion."""

import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Sequence
from itertools import chain

from starlette.responses import Response, StreamingResponse

from cometmq import StoredMessage
from cometmq.admin import dead_letter_json, dead_letter_origin
from cometmq.dashboard.browsing import browse
from cometmq.dashboard.inputs import PageMissing, WrongInput, check_sure, needed, page_of
from cometmq.dashboard.page_request import Page, PageRequest
from cometmq.dashboard.pages.messages import message_in
from cometmq.dashboard.paging import table_page
from cometmq.dashboard.places import place_text, read_place
from cometmq.model.errors import BrokerRefused, CometError, TopicNotFound
from cometmq.model.names import dead_letter_topic
from cometmq.model.text import in_quotes, plural

_GROUPS_A_PAGE = 50
_CHOSEN_MAX = 20
EXPORT_MAX = 10_000
_BYTES_MAX = 256 << 20  # Of the bodies that one request reads.
_COUNTED_MAX = 1_000  # Of each queue; a dead letter may have several MiB.
_UNREADABLE_MAX = 20
REPLAY = "replay dead letter"


async def show_groups(request: PageRequest) -> Response:
    """Return an HTML page with up to 50 of the groups that have or may have dead letters, with the numbers known."""
    counts = await request.admin.dead_letters.list()
    missing = await request.admin.brokers.missing()
    part = table_page(counts, page_of(request.fields), rows=_GROUPS_A_PAGE)
    return request.page(
        "dead.html",
        "Dead letters",
        section="dead",
        part=part,
        absent=[*map(str, missing), *chain(*(each.uncounted for each in part.rows))],
    )


async def show_letters(request: PageRequest) -> Response:
    """Return an HTML page of a group's dead letters, newest first. Raises PageMissing without a dead-letter topic."""
    group = needed(request.fields, "name", "group")
    try:
        browsed = await browse(
            request.cluster.puller,
            dead_letter_topic(group),
            None,
            None,
            page_of(request.fields),
        )
    except TopicNotFound:
        raise PageMissing(f"The group {in_quotes(group, 100)} has no dead letters.") from None
    replayed: set[str] | None = None
    with contextlib.suppress(BrokerRefused):  # The user may be denied the ledger alone.
        replayed = await _replayed(request, group, [row.message for row in browsed.rows])
    return request.page(
        "dead_group.html",
        f"Dead letters of {group}",
        section="dead",
        group=group,
        browsed=browsed,
        origin_of=dead_letter_origin,
        place_text=place_text,
        replayed=replayed,
        most=EXPORT_MAX,
    )


async def show_stats(request: PageRequest) -> Response:
    """Return an HTML page that counts the latest dead letters of a group, 1,000 of each queue, by original topic and tries.

    It says so if counting ended after 256 MiB of bodies.
    """
    group = needed(request.fields, "name", "group")
    unreadable: deque[str] = deque(maxlen=_UNREADABLE_MAX)
    counts = await request.admin.dead_letters.stats(
        group, last=_COUNTED_MAX, bytes_max=_BYTES_MAX, on_unreadable=unreadable.append
    )
    missing = await request.admin.brokers.missing()
    return request.page(
        "dead_stats.html",
        f"Dead letters of {group} by origin",
        section="dead",
        group=group,
        counts=counts,
        most=_COUNTED_MAX,
        absent=[*map(str, missing), *unreadable],
    )


async def _replayed(
    request: PageRequest, group: str, letters: Sequence[StoredMessage]
) -> set[str]:
    """Return the positions, `broker:queue:offset`, of those of the given dead letters that are recorded as replayed."""
    said = await request.admin.dead_letters.replayed(group, letters)
    return {place_text(each) for each, is_so in zip(letters, said, strict=True) if is_so}


async def replay(request: PageRequest) -> Response:
    """Send the dead letters chosen in a form to their original topics, or if `only` is ticked, to their group alone.

    Returns a redirect to the group's dead letters. They also stay in the dead-letter topic. Raises WrongInput, and sends nothing, if none or over 20 are chosen, or any
    has no original topic or was replayed before (unless `again` is ticked); also after sending, if not all succeeded.
    """
    group = needed(request.fields, "name", "group")
    chosen = [text for name, text in sorted(request.fields.items()) if name.startswith("pick")]
    request.subject = f"{len(chosen)} dead {plural(len(chosen), 'letter')} of {group}"
    if not 0 < len(chosen) <= _CHOSEN_MAX:
        raise WrongInput(f"Choose 1 to {_CHOSEN_MAX} dead letters; nothing was sent.")
    letters = [
        await message_in(request, *read_place(dead_letter_topic(group), each))
        for each in chosen
    ]
    again, only = bool(request.fields.get("again")), bool(request.fields.get("only"))
    await _check(request, group, letters, again=again)
    said = await request.admin.dead_letters.replay(group, letters, again=again, only_group=only)
    for letter, why_not in zip(letters, said, strict=True):
        request.audit(REPLAY, f"{letter.message_id} of {group}", why_not or "done")
    if any(said):
        sent, reasons = said.count(""), "; ".join(sorted(set(said) - {""}))
        raise WrongInput(f"{sent} of {len(said)} were sent, the others failed: {reasons}.")
    return request.go(
        "/dead/group",
        f"{len(letters)} dead {plural(len(letters), 'letter was', 'letters were')} sent again; "
        f"{f'only {group}' if only else 'every group of the topic'} gets {plural(len(letters), 'it', 'them')}.",
        name=group,
    )


async def _check(
    request: PageRequest, group: str, letters: Sequence[StoredMessage], *, again: bool
) -> None:
    """Raise WrongInput if a dead letter has no original topic, or was replayed before and `again` is false."""
    for letter in letters:
        if not dead_letter_origin(letter):
            raise WrongInput(
                f"The dead letter {letter.message_id} has no property with its original topic; nothing was sent."
            )
    known = await _replayed(request, group, letters)
    before = [each.message_id for each in letters if place_text(each) in known]
    if before and not again:
        raise WrongInput(
            f"{', '.join(before)}: replayed before; nothing was sent. Tick the box to send such dead letters again."
        )


async def export(request: PageRequest) -> Response:
    """Return a download of JSON lines: up to EXPORT_MAX (10,000) dead letters of a group, by queue and offset.

    A line has the error of each letter that cannot be decoded. If it ends after 256 MiB of bodies, or because a broker
    fails, the last line has that error.
    """
    group = needed(request.fields, "name", "group")
    await request.cluster.puller.queues(
        dead_letter_topic(group)
    )  # An unknown group is an error.
    name = "".join(sign if sign.isalnum() or sign in "-_" else "_" for sign in group)
    return StreamingResponse(
        _lines(request, group),
        media_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="dead-letters-{name}.jsonl"'},
    )


async def delete(request: PageRequest) -> Response:
    """Delete all dead letters of a group and the records of their replays; return a redirect to the list of groups.

    Raises WrongInput if the name of the group is not typed.
    """
    request.subject = group = needed(request.fields, "name", "group")
    check_sure(request.fields, "dead-letter topic of group", group)
    await request.admin.dead_letters.delete(group)
    return request.go("/dead", f"The dead letters of group {group} are deleted.")


async def _lines(request: PageRequest, group: str) -> AsyncIterator[bytes]:
    left = EXPORT_MAX
    errors: deque[str] = deque(maxlen=EXPORT_MAX)
    letters = request.admin.dead_letters.read(
        group, bytes_max=_BYTES_MAX, on_unreadable=errors.append
    )
    try:
        async for letter in letters:
            while errors:
                yield _line({"error": errors.popleft()})
            yield _line(dead_letter_json(letter))
            left -= 1
            if left == 0:
                return
    except CometError as error:
        # Lines that were sent cannot be undone; the last line says that the file is incomplete.
        errors.append(str(error))
    for each in errors:
        yield _line({"error": each})


def _line(value: dict[str, object]) -> bytes:
    return (json.dumps(value) + "\n").encode("utf-8", "replace")


PAGES = (
    Page("/dead", show_groups),
    Page("/dead/group", show_letters),
    Page("/dead/stats", show_stats),
    Page("/dead/export", export),
    Page("/dead/replay", replay, "replay dead letters", show_letters),
    Page("/dead/delete", delete, "delete dead letters", show_letters),
)
