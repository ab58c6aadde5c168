"""Output of commands: tables and lines for people, JSON for programs, errors in one line.

Data goes to stdout, everything else to stderr, so that output can be piped. Colours appear only
where a terminal shows them.
"""

import contextlib
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, cast

import orjson
import typer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from cometmq.cli.visible import visible
from cometmq.model.exit_status import ExitStatus
from cometmq.model.java_hash import java_hash
from cometmq.model.message import StoredMessage
from cometmq.model.total import Total

if TYPE_CHECKING:
    from cometmq.client import AbsentBroker

# Told apart on dark and light backgrounds; red is left for errors.
_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_magenta")
_BYTES_SHOWN_MAX = 32
_UNKNOWN = "_unknown"
_GAP = "   "  # Between the columns of a table.


class _Screen(Console):
    """A console whose reader may leave: rich would end the process with 1, which means findings here."""

    def on_broken_pipe(self) -> None:
        """Raise what the pipe raised; the command's end makes a status of it."""
        raise BrokenPipeError


def screen() -> Console:
    """The console on stdout, for data."""
    return _Screen(soft_wrap=True, highlight=False)


def notes() -> Console:
    """The console on stderr, for everything that is not data."""
    return Console(stderr=True, soft_wrap=True, highlight=False)


def print_error(text: str) -> None:
    """One line that says what is wrong and what to do."""
    line = Text.assemble(("error: ", "bold red"), visible(" ".join(text.split())))
    notes().print(line)


def print_json(value: object) -> None:
    """One line of JSON on stdout, there at once for whoever reads the pipe."""
    sys.stdout.write(orjson.dumps(value).decode() + "\n")
    sys.stdout.flush()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table; columns whose values are numbers stand to the right.

    A name is never cut: a terminal wraps a line that is too long, and a pipe has no width. Cells are plain text, so the
    lines are made here: rich's table takes four times the rest of a list of 1,000 groups.
    """
    values = [list(row) for row in rows]
    shown = [
        [visible(_cell(value, name)) for value, name in zip(row, columns, strict=True)]
        for row in values
    ]
    widths = [
        max(map(cell_len, texts)) for texts in zip(map(visible, columns), *shown, strict=True)
    ]
    is_number = [
        bool(values) and all(_is_number(row[place]) for row in values)
        for place in range(len(columns))
    ]
    head, *lines = (
        _GAP.join(map(_padded, texts, widths, is_number)).rstrip()
        for texts in [list(map(visible, columns)), *shown]
    )
    screen().print(Text(head, style="bold"))
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _padded(text: str, width: int, to_right: bool) -> str:
    blank = " " * (width - cell_len(text))
    return blank + text if to_right else text + blank


def print_lines(
    kind: type[tuple[object, ...]],
    lines: Sequence[tuple[object, ...]],
    *,
    as_json: bool,
    nothing: str,
) -> None:
    """Named tuples of one kind as a table or as one JSON array; `nothing` is said where there are none."""
    columns: Sequence[str] = kind._fields  # type: ignore[attr-defined]
    if as_json:
        print_json([dict(zip(columns, line, strict=True)) for line in lines])
    elif lines:
        print_totals(columns, lines)
    else:
        notes().print(f"[dim]{nothing}")


def print_totals(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table in which a column and the reasons for what is unknown of it (`NAME_unknown`) are one."""
    reasons = {
        columns.index(name.removesuffix(_UNKNOWN)): place
        for place, name in enumerate(columns)
        if name.endswith(_UNKNOWN)
    }
    shown = [place for place in range(len(columns)) if place not in reasons.values()]

    def cell(row: Sequence[object], place: int) -> object:
        value = row[place]
        if place not in reasons or not row[reasons[place]]:
            return value
        assert isinstance(value, int)
        return Total(value, tuple(map(str, cast(list[str], row[reasons[place]]))))

    print_table(
        [columns[place] for place in shown],
        [[cell(row, place) for place in shown] for row in rows],
    )


def note_absent(absent: "Iterable[AbsentBroker]") -> bool:
    """Note on stderr each broker that a list is without; return whether there is one."""
    found = sorted({each.name: each for each in absent}.values())
    for each in found:
        notes().print(f"without {visible(str(each))}", style="bold red", markup=False)
    return bool(found)


def exit_if_partial(is_partial: bool | None) -> None:
    """End with status 1 if what was printed is without a broker."""
    if is_partial:
        raise typer.Exit(ExitStatus.FOUND)


def time_text(time_ms: int) -> str:
    """A time by the clock of this machine.

    Raises:
        ValueError, OverflowError, OSError: beyond what a clock shows.
    """
    return f"{datetime.fromtimestamp(time_ms / 1000).astimezone():%Y-%m-%d %H:%M:%S}"


def print_message(message: StoredMessage, *, as_json: bool) -> None:
    """A message, in one line."""
    if as_json:
        print_json(message_json(message))
    else:
        screen().print(message_line(message))


def message_line(message: StoredMessage) -> Text:
    """A message in one line: when, which queue and offset, tag, keys, properties, body."""
    stored = datetime.fromtimestamp(message.stored_ms / 1000).astimezone()
    line = Text()
    line.append(f"{stored:%H:%M:%S}.{message.stored_ms % 1000:03d} ", style="dim")
    line.append(
        f"q{message.queue.queue_id}#{message.queue_offset}",
        style=_COLOURS[message.queue.queue_id % len(_COLOURS)],
    )
    if message.tag:
        line.append(f" {visible(message.tag)}", style=f"bold {_colour_of(message.tag)}")
    for key in message.keys:
        line.append(f" key={visible(key)}", style="dim")
    for name, value in message.user_properties.items():
        line.append(f" {visible(f'{name}={value}')}", style="dim")
    return line.append("  ").append(body_text(message.body))


def message_json(message: StoredMessage) -> dict[str, object]:
    """A message as a JSON object; a body that is no UTF-8 stands as hexadecimal in `bodyHex`."""
    try:
        body = {"body": message.body.decode()}
    except UnicodeDecodeError:
        body = {"bodyHex": message.body.hex()}
    return {
        "topic": message.topic,
        "broker": message.queue.broker_name,
        "queue": message.queue.queue_id,
        "offset": message.queue_offset,
        "id": message.message_id,
        "offsetId": message.offset_message_id,
        "tag": message.tag,
        "keys": list(message.keys),
        "properties": message.user_properties,
        "bornMs": message.born_ms,
        "storedMs": message.stored_ms,
        "reconsumeTimes": message.reconsume_times,
        **body,
    }


def body_text(body: bytes) -> str:
    """A body for the eye: its text in one line, or how long it is and how it begins."""
    with contextlib.suppress(UnicodeDecodeError):
        text = body.decode().rstrip("\n")
        if text.replace("\n", "").replace("\t", "").isprintable():
            return text.replace("\n", "⏎")
    more = "…" if len(body) > _BYTES_SHOWN_MAX else ""
    return f"<{len(body)} bytes: {body[:_BYTES_SHOWN_MAX].hex(' ')}{more}>"


def _cell(value: object, column: str) -> str:
    """A value as a table shows it: a dash for what nobody said, a time by the clock for whole ms."""
    if value is None or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, int) and column.endswith("_ms"):
        with contextlib.suppress(ValueError, OverflowError, OSError):
            return time_text(value)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _is_number(value: object) -> bool:
    return value is None or (
        isinstance(value, int | float | Total) and not isinstance(value, bool)
    )


def _colour_of(text: str) -> str:
    """Always the same colour for the same text."""
    return _COLOURS[java_hash(text) % len(_COLOURS)]
