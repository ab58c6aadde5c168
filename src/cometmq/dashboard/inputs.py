"""Parses fields of web addresses and forms, with bounds; bad input raises an error with a sentence for the user."""

import re
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from cometmq.model.errors import CometError
from cometmq.model.text import in_quotes

TEXT_MAX = 1000
_WHOLE = re.compile(r"-?[0-9]{1,19}")
PAGE_MAX = 1_000_000_000
_MS_MAX = 253_402_300_799_999  # The end of 9999.


class WrongInput(CometError):
    """Raised if a request or form cannot be carried out as it is, mostly because of a field; the message says why."""


class PageMissing(CometError):
    """Raised if an address or form names a thing that does not exist, such as a broker, group or message."""


class FormRefused(CometError):
    """Raised if a form or page is refused because of the session or the user's role; the message says what to do."""


def text_of(fields: Mapping[str, str], name: str, *, most: int = TEXT_MAX) -> str:
    """Return a field without spaces, tabs and line breaks at its ends; empty if missing. WrongInput: over `most` characters."""
    text = fields.get(name, "").strip(" \t\r\n")
    if len(text) > most:
        raise WrongInput(f"{name} has {len(text)} characters; at most {most} are allowed.")
    return text


def needed(fields: Mapping[str, str], name: str, what: str, *, most: int = TEXT_MAX) -> str:
    """Return a field without spaces, tabs and line breaks at its ends.

    Raises WrongInput if it is missing or empty (the message names `what`), or longer than `most` (it names `name`).
    """
    text = text_of(fields, name, most=most)
    if not text:
        raise WrongInput(f"The {what} is missing; enter one.")
    return text


def number_of(
    fields: Mapping[str, str], name: str, what: str, *, least: int, most: int, default: int
) -> int:
    """Return a whole number in a field, or `default` if it is empty.

    Raises WrongInput if it is not a whole number from `least` to `most` (the message names `what`), or longer than
    TEXT_MAX (it names `name`).
    """
    text = text_of(fields, name)
    if not text:
        return default
    value = int(text) if _WHOLE.fullmatch(text) else None
    if value is None or not least <= value <= most:
        raise WrongInput(
            f"{what}: {in_quotes(text, 40)} is not a whole number from {least} to {most}."
        )
    return value


def page_of(fields: Mapping[str, str]) -> int:
    """Return the field `page`, a number from 1; 1 if it is empty. Raises WrongInput if it is not a page number."""
    return number_of(fields, "page", "Page", least=1, most=PAGE_MAX, default=1)


def order_of(fields: Mapping[str, str], orders: Collection[str]) -> str:
    """Return the field `sort`, one of the orders of a list; the first if it is empty. Raises WrongInput if it is another."""
    text = text_of(fields, "sort") or next(iter(orders))
    if text not in orders:
        raise WrongInput(f"Sort by {', '.join(orders)}, not by {in_quotes(text, 40)}.")
    return text


def time_of(fields: Mapping[str, str], name: str, what: str) -> int | None:
    """Return a time in a field as ms since 1970; None if the field is empty.

    Accepts ms since 1970 (digits only), or a time as `datetime.fromisoformat` reads it, in this machine's zone unless
    it names one. Times of 1969-12-31, and of 1970-01-01 before the epoch, give 0. Raises WrongInput for other times
    before 1970 or after 9999, and for other texts.
    """
    text = text_of(fields, name)
    if not text:
        return None
    wrong = WrongInput(
        f"{what}: {in_quotes(text, 40)} is not a time from 1970 to 9999; write one like 2026-05-01 12:00:00, or ms "
        "since 1970."
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
        # East of Greenwich local midnight of 1970-01-01 is before the epoch; 0 is meant.
        if text.startswith(("1970-01-01", "1969-12-31")):
            return 0
        raise wrong
    return ms


def hex_of(text: str, what: str) -> bytes:
    """Return the bytes of a hexadecimal text, maybe with white space between bytes; raises WrongInput for others."""
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise WrongInput(f"{what} is not hexadecimal: {error}.") from None


def check_sure(fields: Mapping[str, str], what: str, name: str) -> None:
    """Raise WrongInput unless the field `sure` has the name of the topic, group or user (`what`) that is to be deleted."""
    if text_of(fields, "sure") != name:
        raise WrongInput(
            f"The {what} {in_quotes(name, 100)} was not deleted: enter {in_quotes(name)} to confirm."
        )


def check_seen(fields: Mapping[str, str], what: str, name: str, fingerprint: str) -> None:
    """Raise WrongInput unless the settings' `fingerprint` equals the field `seen`, set when the form was loaded."""
    if fields.get("seen") != fingerprint:
        raise WrongInput(
            f"The {what} {in_quotes(name, 100)} was changed in the meantime, in another window or by another user; "
            "nothing was changed now. The page shows the current settings: check them and submit again."
        )


def changed_fields(before: object, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a form that differ from `before`, the settings of one broker, which the form showed.

    A field that the user left alone may differ at other brokers and must stay so.
    """
    return {name: value for name, value in wanted.items() if value != getattr(before, name)}
