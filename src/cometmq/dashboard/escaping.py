"""Makes untrusted text safe to show, so that nothing in it steers the page; and formats numbers, sizes and times.

Jinja2 escapes HTML. This module does the rest: it shows control characters, direction marks and other invisible
characters as code points, isolates the direction of texts (`<bdi>`), and cuts long ones.
"""

import unicodedata

from markupsafe import Markup, escape

from cometmq.model.text import time_text
from cometmq.model.total import Total

NAME_SHOWN_MAX = 300
VALUE_SHOWN_MAX = 2000
_NONE = "\N{EN DASH}"
# Unicode categories of invisible characters: control, format (direction marks), surrogate, private, unassigned, separators.
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_DAY_SECONDS, _HOUR_SECONDS, _MINUTE_SECONDS = 86_400, 3600, 60
_MS_MAX = 253_402_214_400_000  # The end of datetime's range, ms since 1970.


def escaped(value: object, most: int = NAME_SHOWN_MAX) -> Markup:
    """Return untrusted text as HTML on one line; beyond `most` characters it is cut, and its length follows."""
    text = str(value)
    return Markup("<bdi>{}</bdi>{}").format(_visible(text[:most], keep=""), _more(text, most))


def escaped_lines(value: object, most: int = VALUE_SHOWN_MAX) -> Markup:
    """Return untrusted text as HTML for `<pre>`, cut as by `escaped`, with its line feeds and tabs."""
    text = str(value)
    return Markup("<bdi>{}</bdi>{}").format(
        _visible(text[:most], keep="\n\t"), _more(text, most)
    )


def _more(text: str, most: int) -> Markup:
    if len(text) <= most:
        return Markup("")
    return Markup('<span class="cut">… {} characters in all</span>').format(number(len(text)))


def _visible(text: str, *, keep: str) -> Markup:
    if text.isprintable():
        return escape(text)
    parts: list[Markup] = []
    plain: list[str] = []
    for sign in text:
        if sign in keep or unicodedata.category(sign) not in _HIDDEN:
            plain.append(sign)
            continue
        parts.append(escape("".join(plain)))
        plain.clear()
        parts.append(
            Markup('<span class="sign" title="{}">U+{}</span>').format(
                unicodedata.name(sign, "a control character").lower(), f"{ord(sign):04X}"
            )
        )
    parts.append(escape("".join(plain)))
    return Markup("").join(parts)


def hides(value: object) -> bool:
    """Return whether a text has invisible characters; line breaks and tabs count, spaces do not."""
    text = str(value)
    return not text.isprintable() and any(
        unicodedata.category(sign) in _HIDDEN for sign in text
    )


def as_value(value: object) -> Markup:
    """Escape a text for an HTML attribute, with invisible characters as numeric references."""
    if not hides(value):
        return escape(value)
    return Markup("").join(
        Markup("&#{};").format(ord(sign))
        if unicodedata.category(sign) in _HIDDEN
        else escape(sign)
        for sign in str(value)
    )


def plainly(value: object, most: int = NAME_SHOWN_MAX) -> str:
    """Return the first `most` characters of a text, invisible ones as "U+XXXX", for places without HTML elements."""
    return "".join(
        f"U+{ord(sign):04X}" if unicodedata.category(sign) in _HIDDEN else sign
        for sign in str(value)[:most]
    )


def number(value: float | None, digits: int = 0) -> str:
    """Format a number with thousands separators and `digits` decimals; None as a dash."""
    return _NONE if value is None else f"{value:,.{digits}f}"


def sort_key(value: float | Total | None) -> str:
    """Return the number by which browsers sort a table's cell with this value; empty if it is None or quite unknown."""
    if isinstance(value, Total):
        return str(value.known) if value.known or not value.unknown else ""
    return "" if value is None else str(value)


def size(value: float | None) -> str:
    """Format a size in bytes, by its magnitude in B, KiB, MiB, GiB or TiB; None as a dash."""
    if value is None:
        return _NONE
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or unit == "TiB":
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    raise AssertionError("TiB is the last unit")


def moment(ms: int | None) -> str:
    """Format a time (ms since 1970) in this machine's zone; None, 0 and negative as a dash, too late as the number."""
    return _NONE if ms is None or ms <= 0 else time_text(ms)


def instant(ms: int | None) -> str:
    """Format a time like `moment`, to the millisecond."""
    text = moment(ms)
    return f"{text}.{ms % 1000:03d}" if ms is not None and 0 < ms <= _MS_MAX else text


def span(seconds: float) -> str:
    """Format a duration, rounded down, in its largest unit and the next one if that is not 0, such as "2 h 5 min"."""
    left = max(int(seconds), 0)
    days, left = divmod(left, _DAY_SECONDS)
    hours, left = divmod(left, _HOUR_SECONDS)
    minutes, left = divmod(left, _MINUTE_SECONDS)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (left, "s")]
    first = next((place for place, (count, _) in enumerate(parts) if count), 3)
    return " ".join(
        f"{count} {unit}" for count, unit in parts[first : first + 2] if count or first == 3
    )
