"""`cometmq config check`: what becomes of each line of a configuration file, and what would end a start with it."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cometmq.cli.asking import Shown, prints
from cometmq.cli.output import note, print_table
from cometmq.model.errors import SettingsError
from cometmq.model.text import cut, error_text

if TYPE_CHECKING:
    from cometmq.cli.config_files import CheckedRow

_VALUE_MAX = 40
_SIZE_MAX = 4 << 20
_KINDS = (
    "broker, nameserver, accounts (plain_acl.yml), tools (tools.yml) or proxy (rmq-proxy.json)"
)

config = typer.Typer()


@config.command()
@prints
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to check.")],
    *,
    kind: Annotated[
        str | None,
        typer.Option(metavar="KIND", help=f"{_KINDS}. Default: by its name and content."),
    ] = None,
) -> Shown:
    """Show what becomes of each line of a file, the worst first; status 1 if a start with it would fail or warn.

    Also looks for what would end the start: names, ports, folders, certificates. Nothing is changed.
    """
    from cometmq.cli.config_files import check_file, kind_of

    content = _content(file)
    found = check_file(file, content, kind_of(file, content, kind))
    return Shown(
        [each.to_json() for each in found],
        lambda: _print(file, found),
        is_finding=any(each.severity in ("bad", "warning") for each in found),
    )


def _content(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            content = opened.read(_SIZE_MAX + 1)
    except OSError as error:
        raise SettingsError(f"{file}: {error_text(error)}") from None
    if len(content) > _SIZE_MAX:
        raise SettingsError(
            f"{file} has more than {_SIZE_MAX} bytes; this is no file of settings"
        )
    return content


def _print(file: Path, found: "list[CheckedRow]") -> None:
    rows = [
        (
            each.verdict.value, each.line, each.key,
            None if each.value is None else cut(each.value, _VALUE_MAX), each.text,
        )
        for each in found
    ]  # fmt: skip
    if rows:
        print_table(("verdict", "line", "key", "value", "why"), rows)
    severities = {each.severity for each in found}
    if "bad" in severities:
        said, style = "is refused", "bold red"
    elif "warning" in severities:
        said, style = "can be used; look at what is above", "bold yellow"
    else:
        said, style = "can be used", "green"
    counts = Counter(each.verdict.value for each in found)
    parts = ", ".join(f"{count} {word}" for word, count in counts.items())
    note(f"{file} {said}: {parts or 'it is empty'}.", style)
