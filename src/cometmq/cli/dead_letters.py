"""`cometmq dlq`: dead letters of consumer groups, and their replay."""

import gc
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cometmq.admin import (
    DeadLetterFilter,
    DeadLetterStats,
    dead_letter_json,
    dead_letter_origin,
)
from cometmq.cli import complete
from cometmq.cli.asking import (
    Choice,
    Clients,
    Lines,
    Shown,
    ask,
    changes_if_sure,
    chooses,
    lists,
    missing_with,
    shows,
)
from cometmq.cli.options import (
    NAMESERVER_DEFAULT,
    DryRun,
    GroupName,
    KeyFilter,
    Nameserver,
    read_time,
)
from cometmq.cli.output import (
    json_of,
    message_line,
    note,
    note_absent,
    notes,
    print_errors,
    screen,
)
from cometmq.model.errors import SettingsError
from cometmq.model.exit_status import ExitStatus
from cometmq.model.message import StoredMessage
from cometmq.model.message_json import MessageLine
from cometmq.model.names import dead_letter_topic
from cometmq.model.text import plural, printable

if TYPE_CHECKING:
    from cometmq.admin import ReplayResult

LIMIT_DEFAULT = 20
_GC_THRESHOLD = 20_000
_SORTED_MIN = (
    1_000  # So many letters beyond twice --limit are gathered before the last are dropped.
)

letters = typer.Typer()

Sql = Annotated[
    str,
    typer.Option(
        "--sql",
        metavar="EXPRESSION",
        help="Only those that match this SQL92 expression: \"TAGS = 'paid'\".",
    ),
]
Since = Annotated[
    str,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Only those that became dead letters at or after this time: 2026-05-01T12:00.",
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        "--to-topic",
        metavar="TOPIC",
        help="Send them to this topic. Default: the original topic of each.",
        autocompletion=complete.topics,
    ),
]
Until = Annotated[
    str,
    typer.Option(
        "--until", metavar="TIME", help="Only those that became dead letters before this time."
    ),
]


class DeadLetterLine(NamedTuple):
    """A group with dead letters.

    Attributes:
        group: Name of the group.
        letters: Known number of its dead letters.
        letters_unknown: Reasons why there may be more.
        last_ms: Time of the last dead letter, ms since 1970; None if unknown.
    """

    group: str
    letters: int
    letters_unknown: list[str]
    last_ms: int | None


@letters.command("list")
@lists(DeadLetterLine._fields, "No group has dead letters.")
async def list_letters(clients: Clients) -> Lines:
    """Show groups that have dead letters, how many, and the time of the last one; status 1 when some cannot be read."""
    counts = await clients.admin.dead_letters.list()
    lines = [
        DeadLetterLine(each.group, each.letters, list(each.unknown), each.last_ms or None)
        for each in counts
    ]
    absent = chain(await missing_with(clients), *(each.absent for each in counts))
    is_unread = print_errors(chain(*(each.uncounted for each in counts)))
    return Lines(lines, absent, is_finding=is_unread)


@letters.command()
@chooses((*MessageLine._fields, "origin"), limit=LIMIT_DEFAULT)
async def show(
    clients: Clients,
    choice: Choice,
    group: GroupName,
    *,
    sql: Sql = "",
    key: KeyFilter = None,
    since: Since = "",
    until: Until = "",
) -> Shown:
    """Show the newest dead letters of a group that match, or with --sort the first ones; status 1 when there is none.

    Status 1 also when a broker that may have more has left its nameserver.
    """

    def first(letters: list[StoredMessage]) -> list[StoredMessage]:
        if choice.sort is None:
            return sorted(letters, key=lambda each: each.stored_ms)[-limit:]
        return choice.of(letters, lambda each, name: dead_letter_json(each).get(name))

    wanted, limit = _wanted(sql, key, since, until), choice.limit or LIMIT_DEFAULT
    found: list[StoredMessage] = []
    # Without a filter and --sort it is enough to read the last `limit` letters of each queue.
    ends = None if any((sql, key, until, choice.sort)) else limit
    async for letter in _read(clients, group, wanted, last=ends):
        found.append(letter)
        if len(found) >= 2 * limit + _SORTED_MIN:
            found = first(found)
    found = first(found)
    return Shown(
        [*map(dead_letter_json, found)],
        lambda: _print_letters(found),
        await missing_with(clients, dead_letter_topic(group)),
        is_finding=not found,
        is_lines=True,
    )


@letters.command()
@lists(DeadLetterStats._fields, "No dead letter matches.")
async def stats(
    clients: Clients,
    group: GroupName,
    *,
    sql: Sql = "",
    key: KeyFilter = None,
    since: Since = "",
    until: Until = "",
) -> Lines:
    """Count the dead letters of a group by original topic and number of tries.

    Status 1 when a broker that may have more has left its nameserver.
    """
    lines = await clients.admin.dead_letters.stats(
        group, _wanted(sql, key, since, until), on_unreadable=_leave_out
    )
    absent = await missing_with(clients, dead_letter_topic(group))
    return Lines(lines, absent)


@letters.command()
@shows
async def replay(
    clients: Clients,
    group: GroupName,
    *,
    sql: Sql = "",
    key: KeyFilter = None,
    since: Since = "",
    until: Until = "",
    to_topic: Target = None,
    rate: Annotated[
        float | None, typer.Option(min=0.1, metavar="COUNT", help="Maximum number per second.")
    ] = None,
    dry_run: DryRun = False,
) -> Shown:
    """Send dead letters back to the topics where they came from, normally each once, however often this is run.

    Status 1 when some could not be sent, or it is not known whether they were.
    """
    wanted = _wanted(sql, key, since, until)
    gc.freeze()  # Letters have no reference cycles; searching for them took a quarter of the time.
    gc.set_threshold(_GC_THRESHOLD, 20, 50)
    result = await clients.admin.dead_letters.replay_all(
        group, wanted, to_topic=to_topic, rate=rate, is_dry=dry_run, on_wait=note
    )
    return Shown(
        {**asdict(result), "sent": dict(sorted(result.sent.items()))},
        lambda: _print_replay(result),
        is_finding=bool(result.failed or result.homeless),
    )


@letters.command("export")
def export_letters(
    group: GroupName,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="File to write. Default: stdout.")
    ] = None,
    *,
    sql: Sql = "",
    key: KeyFilter = None,
    since: Since = "",
    until: Until = "",
    nameserver: Nameserver = NAMESERVER_DEFAULT,
) -> None:
    """Write dead letters of a group as JSON, one a line, to FILE or stdout.

    Status 1 when a broker that may have more has left its nameserver.
    """
    wanted = _wanted(sql, key, since, until)

    async def work(clients: Clients) -> bool:
        count = 0
        # The file gets its name only when it is complete.
        part = None if file is None else file.with_name(f"{file.name}.part")
        with ExitStack() as stack:
            output = None if part is None else stack.enter_context(part.open("wb"))
            async for letter in _read(clients, group, wanted):
                count += 1
                line = json_of(dead_letter_json(letter)) + b"\n"
                if output is None:
                    typer.echo(line, nl=False)
                else:
                    output.write(line)
        if part is not None and file is not None:
            part.replace(file)
        note(f"{count} dead {plural(count, 'letter')}.", "dim")
        return note_absent(await missing_with(clients, dead_letter_topic(group)))

    if ask(nameserver, work):
        raise typer.Exit(ExitStatus.FOUND)


@letters.command()
@changes_if_sure("Delete all dead letters of group {group}?".format)
async def delete(clients: Clients, group: GroupName) -> str:
    """Delete all dead letters of a group, and the records of their replays."""
    await clients.admin.dead_letters.delete(group)
    return f"The dead letters of group {group} are deleted."


def _print_letters(found: list[StoredMessage]) -> None:
    for letter in found:
        line = message_line(letter)
        line.append(f"  from {printable(str(dead_letter_origin(letter)))}", style="dim")
        screen().print(line)
    if not found:
        notes().print("[dim]No dead letter matches.")


def _read(
    clients: Clients, group: str, wanted: DeadLetterFilter, *, last: int | None = None
) -> AsyncIterator[StoredMessage]:
    return clients.admin.dead_letters.read(group, wanted, on_unreadable=_leave_out, last=last)


def _leave_out(reason: str) -> None:
    note(f"Left out: {reason}.", "yellow")


def _wanted(sql: str, key: str | None, since: str, until: str) -> DeadLetterFilter:
    """Return the filter for dead letters from the values of --sql, --key, --since and --until.

    Raises:
        SettingsError: The SQL92 expression is invalid.
        typer.BadParameter: A time is invalid.
    """
    from cometmq import Sql
    from cometmq.model.errors import ExpressionError

    if sql:
        try:
            Sql(sql)
        except ExpressionError as error:
            raise SettingsError(f"--sql: {error}") from None
    return DeadLetterFilter(
        sql,
        key or "",
        read_time(since, option="--since") if since else 0,
        read_time(until, option="--until") if until else None,
    )


def _print_replay(result: "ReplayResult") -> None:
    verb = "to be sent" if result.dry_run else "sent"
    for topic, count in sorted(result.sent.items()):
        note(f"{count} {verb} to {topic}")
    if not result.sent:
        note(f"Nothing {verb}.", "dim")
    for count, text in (
        (result.before, f"{plural(result.before, 'was', 'were')} sent by an earlier run"),
        (
            result.homeless,
            f"{plural(result.homeless, 'has', 'have')} no property with the original topic: name a topic with --to-topic",
        ),
        (result.failed, "failed"),
    ):
        if count:
            note(f"{count} {text}")
    for reason in result.reasons:
        note(f"  {reason}", "dim")
