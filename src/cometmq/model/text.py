"""Text for log lines, error messages and metrics: foreign text on one line and cut, quotes, plurals, error texts."""

import re
from collections.abc import Iterable
from datetime import datetime
from enum import Enum
from itertools import islice

# The least likeness (SequenceMatcher.ratio) of a mistyped name: about two wrong letters of 16. Less than that of
# autoDeleteTopicEnable and autoCreateTopicEnable (0.86), which mean different things.
_LIKENESS_MIN = 0.88
# UTF-8 of characters beyond ASCII, decoded as Latin-1.
_MISREAD = re.compile("[\u00c2-\u00f4][\u0080-\u00bf]+")


def printable(text: str) -> str:
    """Return the text on one line, with unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )


def time_text(ms: float) -> str:
    """Format a time, ms since 1970, in this machine's time zone; one that has no date, as its number."""
    try:
        return f"{datetime.fromtimestamp(ms / 1000).astimezone():%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):  # A server can report any number.
        return f"{ms:.0f} ms since 1970"


def cut(text: str, most: int) -> str:
    """Return a text; of one with more than `most` characters, keep that many, with its length in place of the middle."""
    if len(text) <= most:
        return text
    tail = most // 4
    return f"{text[: most - tail]} ... ({len(text)} characters) ... {text[-tail:]}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant, which differs in case or very few letters; None if there is none."""
    from difflib import SequenceMatcher  # Lazy: only mistakes need it.

    asked = name.lower()
    likeness = {
        each: SequenceMatcher(None, each.lower(), asked).ratio()
        for each in known
        if abs(len(each) - len(asked)) <= 2
    }
    best = max(likeness, key=lambda each: (likeness[each], each), default=None)
    return best if best is not None and likeness[best] >= _LIKENESS_MIN else None


def as_utf8(text: str) -> str:
    """Return a text with what is UTF-8 read as Latin-1 decoded, as RocketMQ and we read the values of a conf file.

    For people only: such a value is still what RocketMQ takes it for, for example the name of a folder.
    """

    def decoded(found: re.Match[str]) -> str:
        try:
            return found[0].encode("latin-1").decode()
        except UnicodeDecodeError:
            return found[0]

    return _MISREAD.sub(decoded, text)


def label_value(text: str) -> str:
    """Escape the value of a label for Prometheus's text format."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def plural(count: int, one: str, many: str = "") -> str:
    """Return the word `one` if the count is 1, otherwise `many`, by default `one` with an s; without the number."""
    return one if count == 1 else many or f"{one}s"


def listed(names: Iterable[str], most: int = 20) -> str:
    """Return names separated by commas; of more than `most`, only the first ones, and "..."."""
    shown = list(islice(names, most + 1))
    return ", ".join(shown if len(shown) <= most else [*shown[:most], "..."])


def in_quotes(text: str, most: int = 200) -> str:
    """Return a name or another foreign text for an error message: in single quotes, on one line, its middle cut if it is long."""
    return f"'{cut(printable(text), most)}'"


def as_given(value: object, most: int = 200) -> str:
    """Return an argument of a caller as text for an error message.

    A text is in quotes. Callables, classes and members of enumerations appear by name, objects whose `repr` begins with
    "<" by the name of their class, others as their `repr`. Long texts and `repr` are cut (see `cut`).
    """
    if isinstance(value, str):
        return in_quotes(value, most)
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    if callable(value):
        return f"the function {getattr(value, '__qualname__', type(value).__qualname__)}"
    text = (
        f"{type(value).__qualname__}.{value.name}" if isinstance(value, Enum) else repr(value)
    )
    if text.startswith("<"):
        return f"an object of the class {type(value).__qualname__}"
    return cut(printable(text), most)


def error_text(error: BaseException) -> str:
    """Return the text of an error, which may be empty; of an OSError without number and path ("Connection refused")."""
    return getattr(error, "strerror", None) or str(error)


def decode_reason(error: Exception) -> str:
    """Return why a decoded JSON document is not as expected: a missing field, a wrong type, or the error's text."""
    if isinstance(error, KeyError):
        return f"the field {error.args[0]} is missing"
    if isinstance(error, TypeError | AttributeError):
        return "a value has the wrong type"
    return str(error)
