"""Output of commands: tables and lines for people, JSON for programs, errors in one line.

Data goes to stdout, everything else to stderr, so that output can be piped. By default only terminals get colours.
"""

import contextlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

import orjson
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from cometmq.model.codes import Language
from cometmq.model.java_hash import java_hash
from cometmq.model.message import StoredMessage
from cometmq.model.message_json import message_json
from cometmq.model.text import printable, time_text
from cometmq.model.total import Total

if TYPE_CHECKING:
    from cometmq.admin import AbsentBroker

# Readable on dark and light backgrounds; red is reserved for errors.
_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_magenta")
_BYTES_SHOWN_MAX = 32
_ITEMS_SHOWN_MAX = 4
_UNKNOWN = "_unknown"
_TIME = "_ms"
_GAP = "   "  # Between the columns of a table.


class _Screen(Console):
    """A console that raises BrokenPipeError at a closed pipe; rich would exit with status 1, here for findings."""

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError; the entry point turns it into an exit status."""
        raise BrokenPipeError


def screen() -> Console:
    """Return a console on stdout, for data."""
    return _Screen(soft_wrap=True, highlight=False)


def notes() -> Console:
    """Return a console on stderr, for everything that is not data."""
    return Console(stderr=True, soft_wrap=True, highlight=False)


def note(sentence: str, style: str = "") -> None:
    """Print a sentence for people to stderr."""
    notes().print(printable(sentence), style=style, markup=False)


def print_error(text: str) -> None:
    """Print an error to stderr as one line."""
    line = Text.assemble(("error: ", "bold red"), printable(" ".join(text.split())))
    notes().print(line)


def print_errors(texts: Iterable[str]) -> bool:
    """Print to stderr each of these errors, about items that a list shows as unknown; return whether there is one."""
    found = list(texts)
    for each in found:
        print_error(each)
    return bool(found)


def print_json(value: object) -> None:
    """Print a value to stdout as one line of JSON, and flush so that a reader of a pipe gets it immediately."""
    sys.stdout.write(json_of(value).decode() + "\n")
    sys.stdout.flush()


def json_of(value: object) -> bytes:
    """Return a value as JSON; named tuples, data classes and stored messages in it become objects with their fields."""
    return orjson.dumps(value, default=_fields_of, option=orjson.OPT_PASSTHROUGH_DATACLASS)


def _fields_of(value: Any) -> dict[str, object]:
    if isinstance(value, StoredMessage):
        return message_json(value)
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if not hasattr(value, "_asdict"):
        raise TypeError(f"{type(value).__name__} has no JSON")
    found: dict[str, object] = value._asdict()
    return found


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table to stdout; columns of numbers are aligned right, and those of times (`*_ms`) lose that ending.

    Of a list with more than 4 items the first 3 are shown; other cells are never cut: a terminal wraps long lines.
    Lines are formatted here because rich's table is slow.
    """
    values = [list(row) for row in rows]
    shown = [
        [printable(_cell(value, name)) for value, name in zip(row, columns, strict=True)]
        for row in values
    ]
    # Durations in ms are floats; they keep their unit.
    heads = [
        printable(
            name
            if any(isinstance(row[place], float) for row in values)
            else name.removesuffix(_TIME)
        )
        for place, name in enumerate(columns)
    ]
    widths = [max(map(cell_len, texts)) for texts in zip(heads, *shown, strict=True)]
    is_number = [
        bool(values) and all(_is_number(row[place]) for row in values)
        for place in range(len(columns))
    ]
    head, *lines = (
        _GAP.join(map(_padded, texts, widths, is_number)).rstrip() for texts in [heads, *shown]
    )
    screen().print(Text(head, style="bold"))
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _padded(text: str, width: int, to_right: bool) -> str:
    blank = " " * (width - cell_len(text))
    return blank + text if to_right else text + blank


def print_part(title: str, columns: Sequence[str], lines: Sequence[Sequence[object]]) -> None:
    """Print a table below its title; nothing without lines."""
    if lines:
        screen().print(f"\n{printable(title)}", style="bold", markup=False)
        print_totals(columns, lines)


def print_lines(
    columns: Sequence[str], lines: Sequence[Sequence[object]], nothing: str = ""
) -> None:
    """Print lines, which have a value for each column, as a table; without any, print `nothing` to stderr."""
    if lines:
        print_totals(columns, lines)
    else:
        notes().print(f"[dim]{nothing}")


def print_totals(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; a column and its reasons for unknown parts (`NAME_unknown`) are joined into one column."""
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
    """Print to stderr each of these brokers, whose data is missing in what is printed; return whether there is one."""
    found = sorted({each.name: each for each in absent}.values())
    for each in found:
        note(f"incomplete: {each}", "bold red")
    return bool(found)


def language_name(number: int) -> str:
    """Return the name of a client's language, such as "PYTHON"; for an unknown one its number."""
    known = {int(each): each.name for each in Language}
    return known.get(number, str(number))


def message_value(message: StoredMessage, column: str) -> object:
    """Return a field of a message's JSON, to sort messages by; None for a body that is not UTF-8."""
    return message_json(message).get(column)


def print_message(message: StoredMessage, *, as_json: bool) -> None:
    """Print a message to stdout as one line, of text or JSON."""
    if as_json:
        print_json(message)
    else:
        screen().print(message_line(message))


def message_line(message: StoredMessage) -> Text:
    """Format a message as one line of rich text: time of day, queue and offset, tag, keys, user properties, body."""
    stored = datetime.fromtimestamp(message.stored_ms / 1000).astimezone()
    line = Text()
    line.append(f"{stored:%H:%M:%S}.{message.stored_ms % 1000:03d} ", style="dim")
    line.append(
        f"q{message.queue.queue_id}#{message.queue_offset}",
        style=_COLOURS[message.queue.queue_id % len(_COLOURS)],
    )
    if message.tag:
        line.append(f" {printable(message.tag)}", style=f"bold {_colour_of(message.tag)}")
    for key in message.keys:
        line.append(f" key={printable(key)}", style="dim")
    for name, value in message.user_properties.items():
        line.append(f" {printable(f'{name}={value}')}", style="dim")
    return line.append("  ").append(body_text(message.body))


def body_text(body: bytes) -> str:
    """Format a body as one line of text; if it is not printable UTF-8, as its size and first bytes in hexadecimal."""
    with contextlib.suppress(UnicodeDecodeError):
        text = body.decode().rstrip("\n")
        if text.replace("\n", "").replace("\t", "").isprintable():
            return text.replace("\n", "⏎")
    more = "…" if len(body) > _BYTES_SHOWN_MAX else ""
    return f"<{len(body)} bytes: {body[:_BYTES_SHOWN_MAX].hex(' ')}{more}>"


def _cell(value: object, column: str) -> str:
    """Format a value as text for a table: for example None and an empty list as a dash, ms (column `*_ms`) as time."""
    if value is None or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, int) and column.endswith(_TIME):
        return time_text(value)
    if not isinstance(value, list):
        return str(value)
    if len(value) > _ITEMS_SHOWN_MAX:
        value = [*value[: _ITEMS_SHOWN_MAX - 1], f"… {len(value)} in all"]
    return ", ".join(map(str, value))


def _is_number(value: object) -> bool:
    return value is None or (
        isinstance(value, int | float | Total) and not isinstance(value, bool)
    )


def _colour_of(text: str) -> str:
    return _COLOURS[java_hash(text) % len(_COLOURS)]
