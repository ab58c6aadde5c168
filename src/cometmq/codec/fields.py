"""Custom headers: conversion between frozen dataclasses and the text fields of a command.

A header class (in `codec.headers`) is a frozen dataclass of `str`, `int`, `bool` and their `| None` forms. The wire
name of an attribute is its camelCase form, unless `wire("name")` sets another. None is omitted. If a required field is
missing or a field is invalid, decoding raises RequestError, which names it; numbers and booleans need not be strings.
"""

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

from cometmq.kernel import plain_header
from cometmq.kernel.rows import FieldRow
from cometmq.model.errors import invalid_parameter
from cometmq.model.text import as_given

Header = TypeVar("Header")

# Booleans in any case. C++ clients write 1 and 0; Java reads both as false, and so stores their batches as one message.
TRUE, _FALSE = frozenset(("true", "1")), frozenset(("false", "0"))


class _Field(NamedTuple):
    attribute: str
    wire_name: str
    read: Callable[[str], Any]
    write: Callable[[Any], str]
    row: FieldRow


def wire(name: str) -> dict[str, str]:
    """Return dataclass metadata that sets a field's wire name: `field(metadata=wire("a"))`."""
    return {"wire": name}


def decode_fields(header: type[Header], values: dict[str, str]) -> Header:
    """Decode a command's fields to a custom header of the given class; unknown fields are ignored.

    Raises:
        RequestError: INVALID_PARAMETER, naming the missing or invalid field.
    """
    # mypy mistakes the hash of a dataclass's values for that of the class.
    plain = plain_header(header, values, _rows(header))  # type: ignore[arg-type]
    return decode_carefully(header, values) if plain is None else plain


def decode_carefully(header: type[Header], values: dict[str, str]) -> Header:
    """Decode a header with unusual values; raises RequestError, naming the field, if one is missing or invalid."""
    read: list[Any] = []
    for name, reader, is_required, default in _readers(header):  # type: ignore[arg-type]
        text = values.get(name)
        if text is None:
            if is_required:
                raise invalid_parameter(
                    f"{header.__name__}: the field {name} is missing; send it"
                )
            read.append(default)
        elif reader is text_of and text.__class__ is str:
            read.append(text)  # Almost every field.
        else:
            try:
                read.append(reader(text))
            except (ValueError, TypeError, AttributeError):
                raise invalid_parameter(
                    f"{header.__name__}: the field {name} has the wrong value {as_given(text, 80)}"
                ) from None
    return header(*read)


def encode_fields(header: Any) -> dict[str, str]:
    """Encode a custom header as text fields, omitting None."""
    written: dict[str, str] = {}
    for part in _layout(type(header)):  # type: ignore[arg-type]
        value = getattr(header, part.attribute)
        if value is not None:
            written[part.wire_name] = part.write(value)
    return written


@cache
def _rows(header: type) -> tuple[FieldRow, ...]:
    return tuple(part.row for part in _layout(header))


def rows_of(header: type) -> tuple[FieldRow, ...]:
    """Return the fields of a header class as `plain_header` takes them."""
    return _rows(header)


@cache
def _readers(header: type) -> tuple[tuple[str, Callable[[str], Any], bool, Any], ...]:
    # Plain tuples: those with names take three times as long to unpack.
    return tuple((part.wire_name, part.read, *part.row[2:4]) for part in _layout(header))


@cache
def _layout(header: type) -> tuple[_Field, ...]:
    hints = get_type_hints(header)
    layout = []
    for part in fields(header):
        kind = hints[part.name]
        if isinstance(kind, UnionType):
            kind = next(option for option in get_args(kind) if option is not NoneType)
        read, write = _CODINGS[kind]
        assert part.default_factory is MISSING, "a default is text, a number or None"
        assert not part.kw_only, "a header is made of its values in their order"
        is_required = part.default is MISSING
        name = part.metadata.get("wire") or _camel(part.name)
        default = None if is_required else part.default
        row = (name, _KINDS[kind], is_required, default, part.name)
        layout.append(_Field(part.name, name, read, write, row))
    return tuple(layout)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _read_int(text: str | int) -> int:
    # Peers other than Java sometimes send numbers and booleans unquoted.
    if text.__class__ is bool:
        raise TypeError("a truth value is no number")
    value = int(text)
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError("beyond 64 bits")
    return value


def _read_bool(text: object) -> bool:
    lowered = str(text).lower()
    if lowered not in TRUE and lowered not in _FALSE:
        raise ValueError("neither true nor false")
    return lowered in TRUE


def _write_bool(value: object) -> str:
    return "true" if value else "false"


def text_of(value: object) -> str:
    """Return a field as text: some C++ clients write numbers and booleans without quotes, and sign their texts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


_KINDS: dict[type, str] = {str: "s", int: "i", bool: "b"}
_CODINGS: dict[type, tuple[Callable[[Any], Any], Callable[[Any], str]]] = {
    str: (text_of, str),
    int: (_read_int, str),
    bool: (_read_bool, _write_bool),
}
