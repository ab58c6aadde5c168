"""`cometmq doctor`: problems of a cluster, each with advice."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cometmq.cli.asking import ask
from cometmq.cli.options import NAMESERVER_DEFAULT, AsJson, Nameserver
from cometmq.cli.output import notes, print_json, screen
from cometmq.cli.visible import visible
from cometmq.model.exit_status import ExitStatus

if TYPE_CHECKING:
    from cometmq.client import Symptom

_LAG_DEFAULT = 10_000


def doctor(
    *,
    lag: Annotated[
        int, typer.Option(min=0, metavar="COUNT", help="Lag in messages that a group may have.")
    ] = _LAG_DEFAULT,
    nameserver: Nameserver = NAMESERVER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Check a cluster, and show what is wrong and what to do; status 1 if something is bad."""
    found = ask(nameserver, lambda clients: clients.inspector.examine(lag_max=lag))
    if as_json:
        print_json([each._asdict() for each in found])
    else:
        _print(found)
    if any(each.severity == "bad" for each in found):
        raise typer.Exit(ExitStatus.FOUND)


def _print(found: Sequence["Symptom"]) -> None:
    page = screen()
    for each in found:
        style = "bold red" if each.severity == "bad" else "bold yellow"
        page.print(f"{each.severity:<4}", style=style, end=" ")
        page.print(visible(f"{each.check} {each.subject}: {each.text}"), markup=False)
        page.print(f"     {visible(each.advice)}", style="dim", markup=False)
    if not found:
        notes().print("[green]No problem found.")
