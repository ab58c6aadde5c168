"""Formats the beginning of message bodies (at most 64 KiB) for display: as text, JSON, a hex dump, or one line."""

import json
from typing import NamedTuple

BODY_SHOWN_MAX = 64 << 10
LINE_SHOWN_MAX = 160
KINDS = ("text", "json", "hex")
_HEX_SHOWN_MAX = 16 << 10
_HEX_COLUMNS = 16
# Indented JSON is longer than the body; beyond this number of characters it is cut.
_LAID_OUT_MAX = 4 * BODY_SHOWN_MAX
_LINE_BYTES_MAX = 24


class BodyView(NamedTuple):
    """A message's body, formatted for display.

    Attributes:
        kind: Format of `text`: "text", "json" or "hex".
        text: The formatted body.
        is_whole: Whether `text` shows the whole body.
        fault: That the body is not UTF-8, or why requested JSON is not shown; None for neither, and for requested hex.
        size: Size of the body in bytes.
    """

    kind: str
    text: str
    is_whole: bool
    fault: str | None
    size: int


def body_view(body: bytes, kind: str | None = None) -> BodyView:
    """Format a body's beginning as "text", "json" (text if it is no JSON or over 64 KiB) or "hex"; None: by content."""
    if kind == "hex":
        return _as_hex(body, None)
    start = bytes(body[:BODY_SHOWN_MAX])
    is_whole = len(start) == len(body)
    text, bad_byte = _decoded(start, is_whole=is_whole)
    if bad_byte is not None and kind is None:
        return _as_hex(
            body, f"The body is not UTF-8 (byte {bad_byte}), so it is shown in hexadecimal."
        )
    fault = None
    if bad_byte is not None:
        fault = f"The body is not UTF-8 (byte {bad_byte}); invalid bytes are shown as U+FFFD."
    if kind == "json" or (kind is None and start[:1] in (b"{", b"[")):
        laid_out, json_fault = _laid_out(text, is_whole=is_whole)
        if laid_out is not None:
            is_all = len(laid_out) <= _LAID_OUT_MAX
            return BodyView("json", laid_out[:_LAID_OUT_MAX], is_all, fault, len(body))
        fault = fault or (json_fault if kind == "json" else None)
    return BodyView("text", text, is_whole, fault, len(body))


def body_line(body: bytes) -> str:
    """Format the beginning of a body as one line for a list; if that is not UTF-8, as size and first bytes in hex."""
    start = bytes(body[: 4 * LINE_SHOWN_MAX])
    text, bad_byte = _decoded(start, is_whole=len(start) == len(body))
    if bad_byte is not None:
        more = " ..." if len(body) > _LINE_BYTES_MAX else ""
        return f"{len(body)} bytes: {start[:_LINE_BYTES_MAX].hex(' ')}{more}"
    line = " ".join(text.split())
    is_cut = len(line) > LINE_SHOWN_MAX or len(start) < len(body)
    return line[:LINE_SHOWN_MAX] + (" ..." if is_cut else "")


def _decoded(start: bytes, *, is_whole: bool) -> tuple[str, int | None]:
    """Decode UTF-8; return the text, with invalid bytes as U+FFFD, and the index of the first invalid byte or None.

    If the byte is among the last 3 of a cut body, it counts as part of a cut character: the text ends before it.
    """
    try:
        return start.decode(), None
    except UnicodeDecodeError as error:
        # The cut may have split the last character.
        if not is_whole and error.start >= len(start) - 3:
            return start[: error.start].decode(), None
        return start.decode("utf-8", "replace"), error.start


def _laid_out(text: str, *, is_whole: bool) -> tuple[str | None, str | None]:
    """Return a text as indented JSON and None; or None and the reason: it is not JSON, or only a part of the body."""
    if not is_whole:
        return None, f"JSON is only formatted up to {BODY_SHOWN_MAX >> 10} KiB."
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False), None
    except (ValueError, RecursionError) as error:
        return None, f"The body is not JSON: {error}."


def _as_hex(body: bytes, fault: str | None) -> BodyView:
    start = bytes(body[:_HEX_SHOWN_MAX])
    lines = []
    for place in range(0, len(start), _HEX_COLUMNS):
        row = start[place : place + _HEX_COLUMNS]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{place:08x}  {row.hex(' '):<{3 * _HEX_COLUMNS}} {text}")
    return BodyView("hex", "\n".join(lines), len(start) == len(body), fault, len(body))
