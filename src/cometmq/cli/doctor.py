"""`cometmq doctor`: problems of a cluster, each with advice."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cometmq.cli.asking import Choice, Clients, Shown, chooses
from cometmq.cli.options import IgnoreFile
from cometmq.cli.output import notes, screen
from cometmq.model.text import plural, printable

if TYPE_CHECKING:
    from cometmq.admin import Symptom

_LAG_DEFAULT = 10_000
_WAIT_DEFAULT = 300.0
_STYLES = {"bad": "bold red", "warning": "bold yellow", "note": "bold"}
_NAMED_MAX = 4
_INDENT = " " * 8


Lag = Annotated[
    int, typer.Option(min=0, metavar="COUNT", help="Lag in messages that a group may have.")
]
Wait = Annotated[
    float,
    typer.Option(
        min=0,
        metavar="SECONDS",
        help="How long a message may wait for a consumer, or for the end of its transaction.",
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CHECK[:OBJECT]",
        help="Leave out these findings, such as abandoned:test-*; may be repeated.",
    ),
]
All = Annotated[bool, typer.Option("--all", help="List each finding, also if many are alike.")]
COLUMNS = ("check", "subject", "severity", "text", "advice", "since_ms", "see")


@chooses(COLUMNS)
async def doctor(
    clients: Clients,
    choice: Choice,
    *,
    lag: Lag = _LAG_DEFAULT,
    wait: Wait = _WAIT_DEFAULT,
    ignore: Ignore = None,
    ignore_file: IgnoreFile = None,
    all_: All = False,
) -> Shown:
    """Check a cluster, and show what is wrong and what to do; status 1 if something is bad."""
    from cometmq.admin import IgnoreList

    ignored = IgnoreList.read(ignore_file, ignore or ())
    seen = await clients.admin.health.check(lag_max=lag, wait_ms=int(wait * 1000))
    kept = [each for each in seen if each not in ignored]
    found, count_ignored = choice.of(kept), len(seen) - len(kept)
    return Shown(
        [{name: getattr(each, name) for name in COLUMNS} for each in found],
        lambda: _print(found, count_ignored=count_ignored, is_each_listed=all_),
        is_finding=any(each.severity == "bad" for each in kept),
    )


def _print(found: Sequence["Symptom"], *, count_ignored: int, is_each_listed: bool) -> None:
    from cometmq.admin import grouped_symptoms

    page, say = screen(), notes()
    for part in [[each] for each in found] if is_each_listed else grouped_symptoms(found):
        first = part[0]
        page.print(f"{first.severity:<7}", style=_STYLES[first.severity], end=" ")
        if len(part) > 1:
            named = ", ".join(each.subject for each in part[:_NAMED_MAX])
            text = f"{first.check}: {len(part)} findings, of {named} and {len(part) - _NAMED_MAX} more (--all lists each)"
            page.print(printable(text), markup=False)
            page.print(f"{_INDENT}{printable(f'{first.subject}: {first.text}')}", markup=False)
        else:
            page.print(printable(f"{first.check} {first.subject}: {first.text}"), markup=False)
        since = f"since {first.since}: " if first.since else ""
        page.print(
            f"{_INDENT}{since}{printable(first.advice)} ({first.see})",
            style="dim",
            markup=False,
        )
    if not found:
        say.print("[green]No problem found.")
    if count_ignored:
        say.print(
            f"{count_ignored} {plural(count_ignored, 'finding is', 'findings are')} ignored."
        )
