"""What the commands print: tables and lines for people, JSON for programs, errors in one line.

Data goes to stdout, everything else to stderr, so that output can be piped. Colours appear only
where a terminal shows them.
"""

import contextlib
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cometmq.model.java_hash import java_hash
from cometmq.model.message import StoredMessage

# Told apart on dark and light backgrounds; red is left for errors.
_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_magenta")
_BYTES_SHOWN_MAX = 32
_TABLE_WIDTH_MAX = 10_000


def screen() -> Console:
    """Where data for people goes."""
    return Console(soft_wrap=True, highlight=False)


def notes() -> Console:
    """Where everything that is not data goes."""
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
    """A table; columns whose values are numbers stand to the right."""
    cells = [list(row) for row in rows]
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 3, 0, 0))
    for place, column in enumerate(columns):
        is_number = bool(cells) and all(isinstance(row[place], int) for row in cells)
        table.add_column(column, justify="right" if is_number else "left", no_wrap=True)
    for row in cells:
        table.add_row(*(Text(visible(str(cell))) for cell in row))
    console = screen()
    wide = console.options.update(max_width=_TABLE_WIDTH_MAX)
    # A name is never cut: a terminal wraps a line that is too long, and a pipe has no width.
    console.width = max(console.width, console.measure(table, options=wide).maximum)
    console.print(table)


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


def visible(text: str) -> str:
    """`text` without what would steer a terminal: a sender must not write on our user's screen."""
    return text if text.isprintable() else ascii(text)[1:-1]


def _colour_of(text: str) -> str:
    """Always the same colour for the same text."""
    return _COLOURS[java_hash(text) % len(_COLOURS)]
