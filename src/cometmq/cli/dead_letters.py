"""`cometmq dlq`: dead letters of consumer groups, and their replay."""

import gc
from collections.abc import AsyncIterator, Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from cometmq.cli import complete
from cometmq.cli.asking import Clients, ask, ask_listed, missing_with
from cometmq.cli.options import (
    NAMESERVER_DEFAULT,
    AsJson,
    GroupName,
    Nameserver,
    Watch,
    Yes,
    confirm,
    read_time,
)
from cometmq.cli.output import (
    message_json,
    message_line,
    notes,
    print_json,
    print_lines,
    screen,
)
from cometmq.cli.visible import visible
from cometmq.model.errors import SettingsError
from cometmq.model.exit_status import ExitStatus
from cometmq.model.message import StoredMessage
from cometmq.model.names import dead_letter_topic
from cometmq.model.text import plural

if TYPE_CHECKING:
    from cometmq.admin import AbsentBroker, DeadLetterFilter, ReplayResult

SHOWN_DEFAULT = 20
_GC_THRESHOLD = 20_000
_SORTED_MIN = 1_000  # So many letters beyond twice the wanted number are gathered before older ones are dropped.

letters = typer.Typer(
    help="Dead letters: messages that a group failed to consume in all attempts.",
    no_args_is_help=True,
)

Sql = Annotated[
    str,
    typer.Option(
        "--sql",
        metavar="EXPRESSION",
        help="Only those that match this SQL92 expression: \"TAGS = 'paid'\".",
    ),
]
Key = Annotated[str, typer.Option("--key", help="Only those with this key.")]
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


@letters.callback()
def group() -> None:
    """Do nothing: the callback of the command group `cometmq dlq`."""


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


class DeadLetterStatsLine(NamedTuple):
    """The selected dead letters of a group that came from the same topic after the same number of retries.

    Attributes:
        origin: Original topic; None if it was not recorded.
        tries: Number of redeliveries before the group gave up.
        letters: Number of these dead letters.
        first_ms: Time of the first one, ms since 1970.
        last_ms: Time of the last one, ms since 1970.
    """

    origin: str | None
    tries: int
    letters: int
    first_ms: int
    last_ms: int


@letters.command("list")
def list_letters(
    *,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
    watch: Watch = False,
) -> None:
    """Show groups that have dead letters, how many, and the time of the last one; status 1 when a broker is missing."""

    async def look(clients: Clients) -> "Iterable[AbsentBroker]":
        counts = await clients.admin.dead_letters.list()
        lines = [
            DeadLetterLine(
                each.group,
                each.letters,
                list(each.unknown),
                each.last_ms or None,
            )
            for each in counts
        ]
        print_lines(
            DeadLetterLine, lines, as_json=as_json, nothing="No group has dead letters."
        )
        return chain(await missing_with(clients), *(each.absent for each in counts))

    ask_listed(nameserver, look, is_watched=watch)


@letters.command()
def show(
    group: GroupName,
    *,
    sql: Sql = "",
    key: Key = "",
    since: Since = "",
    until: Until = "",
    count_max: Annotated[
        int,
        typer.Option("--max", min=1, metavar="COUNT", help="Show only so many, the newest."),
    ] = SHOWN_DEFAULT,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show the newest dead letters of a group that match; status 1 when there is none, or a broker is missing."""
    wanted = _wanted(sql, key, since, until)

    is_found = False

    async def look(clients: Clients) -> "Iterable[AbsentBroker]":
        nonlocal is_found
        last: list[StoredMessage] = []
        # Without a filter it is enough to read the last `count_max` letters of each queue.
        ends = None if any((sql, key, until)) else count_max
        async for letter in _read(clients, group, wanted, last=ends):
            last.append(letter)
            if len(last) >= 2 * count_max + _SORTED_MIN:
                last = _youngest(last, count_max)
        _print_letters(_youngest(last, count_max), as_json=as_json)
        is_found = bool(last)
        return await missing_with(clients, dead_letter_topic(group))

    ask_listed(nameserver, look)
    if not is_found:
        raise typer.Exit(ExitStatus.FOUND)


@letters.command()
def stats(
    group: GroupName,
    *,
    sql: Sql = "",
    key: Key = "",
    since: Since = "",
    until: Until = "",
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Count the dead letters of a group for each pair of original topic and number of tries; status 1 when a broker is missing."""
    wanted = _wanted(sql, key, since, until)

    async def look(clients: Clients) -> "Iterable[AbsentBroker]":
        lines = await _counted(_read(clients, group, wanted))
        print_lines(
            DeadLetterStatsLine, lines, as_json=as_json, nothing="No dead letter matches."
        )
        return await missing_with(clients, dead_letter_topic(group))

    ask_listed(nameserver, look)


@letters.command()
def replay(
    group: GroupName,
    *,
    sql: Sql = "",
    key: Key = "",
    since: Since = "",
    until: Until = "",
    to: Target = None,
    rate: Annotated[
        float | None, typer.Option(min=0.1, metavar="COUNT", help="Maximum number per second.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count them; send nothing.")
    ] = False,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Send dead letters back to the topics where they came from, normally each once, however often this is run.

    Status 1 when some could not be sent, or it is not known whether they were.
    """
    wanted = _wanted(sql, key, since, until)
    gc.freeze()  # Letters have no reference cycles; searching for them took a quarter of the time.
    gc.set_threshold(_GC_THRESHOLD, 20, 50)

    async def work(clients: Clients) -> "ReplayResult":
        say = notes()
        return await clients.admin.dead_letters.replay_all(
            group,
            wanted,
            to_topic=to,
            rate=rate,
            is_dry=dry_run,
            on_wait=lambda text: say.print(visible(text), markup=False),
        )

    result = ask(nameserver, work)
    if as_json:
        print_json(replay_json(result, dry_run=dry_run))
    else:
        _print_replay(result, dry_run=dry_run)
    if result.failed or result.homeless:
        raise typer.Exit(ExitStatus.FOUND)


@letters.command("export")
def export_letters(
    group: GroupName,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="File to write. Default: stdout.")
    ] = None,
    *,
    sql: Sql = "",
    key: Key = "",
    since: Since = "",
    until: Until = "",
    nameserver: Nameserver = NAMESERVER_DEFAULT,
) -> None:
    """Write dead letters of a group as JSON, one a line, to FILE or stdout; status 1 when a broker is missing."""
    import orjson

    wanted = _wanted(sql, key, since, until)

    async def look(clients: Clients) -> "Iterable[AbsentBroker]":
        count = 0
        # The file gets its name only when it is complete.
        part = None if file is None else file.with_name(f"{file.name}.part")
        output = None if part is None else part.open("wb")
        try:
            async for letter in _read(clients, group, wanted):
                count += 1
                line = orjson.dumps(letter_json(letter)) + b"\n"
                if output is None:
                    typer.echo(line, nl=False)
                else:
                    output.write(line)
        finally:
            if output is not None:
                output.close()
        if part is not None and file is not None:
            part.replace(file)
        notes().print(f"{count} dead {plural(count, 'letter')}.", style="dim")
        return await missing_with(clients, dead_letter_topic(group))

    ask_listed(nameserver, look)


@letters.command()
def purge(
    group: GroupName,
    *,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    yes: Yes = False,
) -> None:
    """Delete all dead letters of a group, and the records of their replays."""
    confirm(f"Delete all dead letters of group {group}?", yes=yes)
    ask(nameserver, lambda clients: clients.admin.dead_letters.delete(group))
    notes().print(f"The dead letters of group {visible(group)} are deleted.", markup=False)


def _print_letters(found: list[StoredMessage], *, as_json: bool) -> None:
    for letter in found:
        if as_json:
            print_json(letter_json(letter))
        else:
            line = message_line(letter)
            line.append(f"  from {visible(str(letter_json(letter)['origin']))}", style="dim")
            screen().print(line)
    if not found:
        notes().print("[dim]No dead letter matches.")


def _read(
    clients: Clients, group: str, wanted: "DeadLetterFilter", *, last: int | None = None
) -> AsyncIterator[StoredMessage]:
    def left_out(reason: str) -> None:
        notes().print(f"Left out: {visible(reason)}.", style="yellow", markup=False)

    return clients.admin.dead_letters.read(group, wanted, on_unreadable=left_out, last=last)


async def _counted(letters: AsyncIterator[StoredMessage]) -> list[DeadLetterStatsLine]:
    """Count dead letters for each original topic and number of redeliveries; return the lines, largest count first."""
    from cometmq.admin import dead_letter_origin

    found: dict[tuple[str | None, int], DeadLetterStatsLine] = {}
    async for letter in letters:
        origin, tries, died = (
            dead_letter_origin(letter),
            letter.reconsume_times,
            letter.stored_ms,
        )
        known = found.get((origin, tries)) or DeadLetterStatsLine(origin, tries, 0, died, died)
        found[origin, tries] = known._replace(
            letters=known.letters + 1,
            first_ms=min(known.first_ms, died),
            last_ms=max(known.last_ms, died),
        )
    return sorted(
        found.values(), key=lambda each: (-each.letters, each.origin or "", each.tries)
    )


def _youngest(letters: list[StoredMessage], count: int) -> list[StoredMessage]:
    return sorted(letters, key=lambda each: each.stored_ms)[-count:]


def _wanted(sql: str, key: str, since: str, until: str) -> "DeadLetterFilter":
    """Return the filter for dead letters from the values of --sql, --key, --since and --until.

    Raises:
        SettingsError: The SQL92 expression is invalid.
        typer.BadParameter: A time is invalid.
    """
    from cometmq.admin import DeadLetterFilter
    from cometmq.codec.sql92 import sql92_filter
    from cometmq.model.errors import ExpressionError

    if sql:
        try:
            sql92_filter(sql)
        except ExpressionError as error:
            raise SettingsError(f"--sql: {error}") from None
    return DeadLetterFilter(
        sql,
        key,
        read_time(since, option="--since") if since else 0,
        read_time(until, option="--until") if until else None,
    )


def letter_json(letter: StoredMessage) -> dict[str, object]:
    """Return a dead letter as a dict for `print_json`: the fields of any message, and its original topic."""
    from cometmq.admin import dead_letter_origin

    return {**message_json(letter), "origin": dead_letter_origin(letter)}


def replay_json(result: "ReplayResult", *, dry_run: bool) -> dict[str, Any]:
    """Return the result of a replay of dead letters as a dict for `print_json`."""
    return {
        "dry_run": dry_run,
        "sent": dict(sorted(result.sent.items())),
        "before": result.before,
        "homeless": result.homeless,
        "failed": result.failed,
        "reasons": list(result.reasons),
    }


def _print_replay(result: "ReplayResult", *, dry_run: bool) -> None:
    say = notes()
    verb = "to be sent" if dry_run else "sent"
    for topic, count in sorted(result.sent.items()):
        say.print(f"{count} {verb} to {visible(topic)}", markup=False)
    if not result.sent:
        say.print(f"[dim]Nothing {verb}.")
    for count, text in (
        (result.before, f"{plural(result.before, 'was', 'were')} sent by an earlier run"),
        (
            result.homeless,
            f"{plural(result.homeless, 'has', 'have')} no property with the original topic: name a topic with --to",
        ),
        (result.failed, "failed"),
    ):
        if count:
            say.print(f"{count} {text}", markup=False)
    for reason in result.reasons:
        say.print(f"  {visible(reason)}", style="dim", markup=False)
