"""Input of addresses and forms: read, bounded, or refused with a sentence."""

import re
from collections.abc import Mapping
from datetime import datetime

from cometmq.model.errors import CometError

TEXT_MAX = 1000
_WHOLE = re.compile(r"-?[0-9]{1,19}")
PAGE_MAX = 1_000_000_000
_MS_MAX = 253_402_300_799_999  # The end of 9999.


class WrongInput(CometError):
    """Something was written that cannot be used; the message says what, and what can."""


class PageMissing(CometError):
    """Raised where an address names a thing that does not exist."""


class FormRefused(CometError):
    """A form is not done: not of this session, sent twice, not for this role. The message says what to do."""


def text_of(fields: Mapping[str, str], name: str, *, most: int = TEXT_MAX) -> str:
    """Return a field without spaces, tabs and ends of lines around it; empty if it is missing.

    Raises:
        WrongInput: it is too long.
    """
    text = fields.get(name, "").strip(" \t\r\n")
    if len(text) > most:
        raise WrongInput(f"{name}: {len(text)} characters; {most} is the most")
    return text


def needed(fields: Mapping[str, str], name: str, what: str, *, most: int = TEXT_MAX) -> str:
    """A field that must be there.

    Raises:
        WrongInput: it is empty or too long.
    """
    text = text_of(fields, name, most=most)
    if not text:
        raise WrongInput(f"No {what} was named; write one.")
    return text


def number_of(
    fields: Mapping[str, str], name: str, what: str, *, least: int, most: int, default: int
) -> int:
    """A whole number in a field.

    Raises:
        WrongInput: it is none, or out of its bounds.
    """
    text = text_of(fields, name)
    if not text:
        return default
    value = int(text) if _WHOLE.fullmatch(text) else None
    if value is None or not least <= value <= most:
        raise WrongInput(f"{what}: {text[:40]!r} is no whole number from {least} to {most}.")
    return value


def page_of(fields: Mapping[str, str]) -> int:
    """The number of the page that is asked for, from 1.

    Raises:
        WrongInput: it is none.
    """
    return number_of(fields, "page", "Page", least=1, most=PAGE_MAX, default=1)


def time_of(fields: Mapping[str, str], name: str, what: str) -> int | None:
    """A time as ms since 1970; None where nothing stands there.

    A number of ms, or ISO 8601 (of this machine's zone unless it says otherwise), from 1970 to 9999.

    Raises:
        WrongInput: it is neither.
    """
    text = text_of(fields, name)
    if not text:
        return None
    wrong = WrongInput(
        f"{what}: {text[:40]!r} is no time from 1970 to 9999; write one like 2026-05-01 12:00:00, or ms since 1970."
    )
    if text.isascii() and text.isdecimal():
        if len(text) > 15:
            raise wrong
        ms = int(text)
    else:
        try:
            ms = int(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
        except (ValueError, OverflowError, OSError):
            raise wrong from None
    if not 0 <= ms <= _MS_MAX:
        # 1970 in a zone east of Greenwich is a moment before it: the beginning is meant.
        if text.startswith(("1970-01-01", "1969-12-31")):
            return 0
        raise wrong
    return ms


def hex_of(text: str, what: str) -> bytes:
    """Bytes that are written as hexadecimal, with white space between if somebody likes.

    Raises:
        WrongInput: they are not.
    """
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise WrongInput(f"{what} is no hexadecimal: {error}.") from None
