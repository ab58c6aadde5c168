"""Text for log lines, error messages and metrics: foreign text on one line and cut, quotes, plurals, error texts."""

from enum import Enum


def printable(text: str) -> str:
    """Return the text on one line, with unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )


def cut(text: str, most: int) -> str:
    """Return a text; of one with more than `most` characters, keep that many, with its length in place of the middle."""
    if len(text) <= most:
        return text
    tail = most // 4
    return f"{text[: most - tail]} ... ({len(text)} characters) ... {text[-tail:]}"


def label_value(text: str) -> str:
    """Escape the value of a label for Prometheus's text format."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def plural(count: int, one: str, many: str = "") -> str:
    """Return the word `one` if the count is 1, otherwise `many`, by default `one` with an s; without the number."""
    return one if count == 1 else many or f"{one}s"


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
