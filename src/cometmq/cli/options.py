"""Options that several commands share, and the parsing of their values."""

import inspect
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from cometmq.cli import complete
from cometmq.model.text import in_quotes, printable

NAMESERVER_DEFAULT = "127.0.0.1:9876"
START_EARLIEST = "earliest"
START_LATEST = "latest"


def sort_option(columns: Sequence[str]) -> Any:
    """Return the annotation of the option --sort of a list with these columns."""

    def offered(incomplete: str) -> list[str]:
        minus = "-" if incomplete.startswith("-") else ""
        return [minus + name for name in columns if (minus + name).startswith(incomplete)]

    def check(value: str | None) -> str | None:
        if value is not None and value.removeprefix("-") not in columns:
            name = in_quotes(value.removeprefix("-"))
            raise typer.BadParameter(
                f"there is no column {name}; choose one of {', '.join(columns)}"
            )
        return value

    return Annotated[
        str | None,
        typer.Option(
            "--sort",
            metavar="COLUMN",
            help=f"Sort by a column, with '-' before it the largest first: {', '.join(columns)}.",
            autocompletion=offered,
            callback=check,
        ),
    ]


def keyword(name: str, kind: Any, default: Any) -> inspect.Parameter:
    """Return an option of a command that is made from parameters, with its annotation for Typer and its default."""
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
    )


def _print_version(is_wanted: bool) -> None:
    """Print version, kernel and Python and exit if `--version` was given; otherwise do nothing."""
    if is_wanted:
        from cometmq.process.build import version_line

        print(version_line())
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version",
        callback=_print_version,
        is_eager=True,
        help="Print version, kernel and Python.",
    ),
]
Nameserver = Annotated[
    str,
    typer.Option(
        "--nameserver",
        "-n",
        envvar="NAMESRV_ADDR",
        metavar="HOST:PORT",
        help="Nameserver addresses, separated by ';'.",
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON for programs; stdout has nothing else.")
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", min=1, metavar="COUNT", help="Print at most so many lines."),
]
Watch = Annotated[bool, typer.Option("--watch", help="Repeat every 2 s until Ctrl-C.")]
IgnoreFile = Annotated[
    Path | None,
    typer.Option(
        "--ignore-file",
        envvar="COMETMQ_DOCTOR_IGNORE",
        metavar="FILE",
        help="A file of findings that doctor leaves out, one CHECK or CHECK:OBJECT a line.",
    ),
]
System = Annotated[bool, typer.Option("--system", help="Also list those of brokers and tools.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
BrokerName = Annotated[
    str,
    typer.Argument(
        metavar="BROKER", help="The name of the broker.", autocompletion=complete.brokers
    ),
]
BrokerId = Annotated[
    int,
    typer.Option(
        "--broker-id", min=0, help="Broker id within its broker group; 0 is the master."
    ),
]
AtBroker = Annotated[
    str | None, typer.Option(help="Only at this broker.", autocompletion=complete.brokers)
]
AtCluster = Annotated[
    str | None, typer.Option(help="Only in this cluster.", autocompletion=complete.clusters)
]
TopicName = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC", help="The name of the topic.", autocompletion=complete.topics
    ),
]
GroupName = Annotated[
    str,
    typer.Argument(metavar="GROUP", help="The consumer group.", autocompletion=complete.groups),
]
AnyGroup = Annotated[
    str | None,
    typer.Argument(
        metavar="GROUP",
        help="The consumer group. Default: all groups.",
        autocompletion=complete.groups,
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
TopicOption = Annotated[
    str | None,
    typer.Option("--topic", "-t", help="Only this topic.", autocompletion=complete.topics),
]
_GROUP = typer.Option(
    "--group", "-g", help="The consumer group.", autocompletion=complete.groups
)
GroupOption = Annotated[str | None, _GROUP]
NeededGroup = Annotated[str, _GROUP]
QueueFilter = Annotated[int | None, typer.Option("--queue", min=0, help="Only this queue.")]
KeyFilter = Annotated[str | None, typer.Option("--key", help="Only messages with this key.")]
TagFilter = Annotated[
    str,
    typer.Option(
        "--tag", metavar="EXPRESSION", help="Only messages with this tag: a, or 'a || b'."
    ),
]
Start = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="PLACE",
        help="Where to start: earliest, latest, or a time such as 2026-05-01T12:00.",
    ),
]


def hide_flag_types(command: Any, context: Any) -> None:
    """Make the help of a command, and of its subcommands, show flags without a type.

    Typer 0.29 shows `--json <bool>`, as if a value had to follow.
    """
    for part in getattr(command, "commands", {}).values():
        hide_flag_types(part, context)
    for parameter in command.get_params(context):
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""


def confirm(question: str, *, yes: bool) -> None:
    """Ask the user on stderr to confirm an action, unless `yes` is set. Raises typer.Abort if they refuse."""
    if not yes:
        typer.confirm(printable(question), abort=True, err=True)


def place_text(broker: str | None, cluster: str | None) -> str:
    """Return where a change is made: " at BROKER", " in cluster CLUSTER", or "" for everywhere.

    Raises typer.BadParameter if both options are given.
    """
    if broker is not None and cluster is not None:
        raise typer.BadParameter(
            "give only one of --broker and --cluster", param_hint="--cluster"
        )
    if broker is not None:
        return f" at {broker}"
    return "" if cluster is None else f" in cluster {cluster}"


def read_pairs(pairs: list[str], *, option: str) -> dict[str, str]:
    """Parse `["a=1", "b=2"]` to a dictionary. Raises typer.BadParameter if one has no '=', or no name before it."""
    values = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise typer.BadParameter(
                f"{in_quotes(pair)} is not a pair; write name=value", param_hint=option
            )
        values[name] = value
    return values


def read_start(text: str) -> str | int:
    """Parse a start position: "earliest", "latest", or a time, which is returned as ms since 1970.

    A time is ms since 1970 or ISO 8601 (local time if it names no zone). Raises typer.BadParameter for any other text.
    """
    if text in {START_EARLIEST, START_LATEST}:
        return text
    return read_time(text, option="--from", also=f"{START_EARLIEST}, {START_LATEST}, ")


def read_time(text: str, *, option: str, also: str = "") -> int:
    """Parse a time, given as ms since 1970 or in ISO 8601 (local time if it names no zone), to ms since 1970.

    Raises typer.BadParameter if it is neither; its text lists `also`, other values that the option accepts.
    """
    try:
        if text.isdecimal():
            return int(text)
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise typer.BadParameter(
            f"{in_quotes(text)} is not valid; write {also}a time such as 2026-05-01T12:00, or ms since 1970",
            param_hint=option,
        ) from None
