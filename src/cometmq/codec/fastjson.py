"""JSON as Java's RocketMQ reads and writes it, in command bodies and in the files in `config/`.

fastjson differs from JSON: numbers as keys have no quotes, objects can be keys, and files have a tab indentation of
their own (docs/format/fastjson.md). `loads` accepts strict JSON and all of that; `dumps` writes nearly what fastjson
1.2.83 would write. Number keys come in two forms: `{0:1}` has the key 0, `{"0":1}` the key "0"; `int_keys` converts
both to numbers.
"""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, TypeVar

import orjson

from cometmq.codec.json_reference import REFERENCE, resolve_references
from cometmq.codec.lenient_json import NESTING_MAX, FrozenObject, parse
from cometmq.model.errors import CodecError
from cometmq.model.text import as_given

__all__ = ["NESTING_MAX", "FrozenObject", "JavaList", "dumps", "int_keys", "loads"]

_REFERENCE = REFERENCE.encode()
_SPECIAL = re.compile('["\\\\\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]')
_SHORT_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
}  # fmt: skip

_KEYS_KEPT = 256

_CONTAINERS = (dict, list)  # Types made by the readers.
_HOLDERS = (Mapping, list, tuple, set, frozenset)  # Types accepted by the writer.

Value = TypeVar("Value")


class JavaList(list[object]):
    """An array that is a `List` in Java; the indented form begins a new line for each of its items.

    Between the items of other arrays it has no line break, as Java writes its sets and primitive arrays.
    """


# --- reading


def loads(content: bytes | str, *, lenient_size_max: int | None = None) -> Any:
    """Parse a JSON or fastjson text; return None for an empty one, as fastjson does.

    Objects become dicts. Keys that are objects become `FrozenObject`, those that are arrays become tuples. A value
    `{"$ref":path}` within another one is replaced by the value at that path. Texts longer than `lenient_size_max` bytes
    must be strict JSON, as the lenient parser is slow.

    Raises:
        CodecError: The text is neither JSON nor fastjson, is not UTF-8, is nested deeper than 32 levels, or has
            references that cannot be resolved, for example to nothing, to an object around them or to too much.
    """
    raw = content.encode("utf-8", "replace") if isinstance(content, str) else content
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        if lenient_size_max is not None and len(raw) > lenient_size_max:
            raise CodecError(
                f"JSON: {error}; only strict JSON may have more than {lenient_size_max} bytes, "
                f"and this text has {len(raw)}"
            ) from None
        value = parse(_text(raw))
    else:
        if raw.count(b"{") + raw.count(b"[") > NESTING_MAX:
            _check_nesting(value)
    return resolve_references(value) if _REFERENCE in raw else value


def _text(raw: bytes) -> str:
    try:
        return str(raw, "utf-8")
    except UnicodeDecodeError as error:
        raise CodecError(f"JSON: not UTF-8: {error}") from None


def _check_nesting(value: object) -> None:
    """Raise CodecError if a parsed value has more than 32 levels; looks level by level to avoid recursion."""
    level = [value] if type(value) in _CONTAINERS else []
    for _ in range(NESTING_MAX):
        level = [
            item
            for holder in level
            for item in (holder.values() if type(holder) is dict else holder)  # type: ignore[attr-defined]
            if type(item) in _CONTAINERS
        ]
    if level:
        raise CodecError(f"JSON: more than {NESTING_MAX} levels")


def int_keys(mapping: Mapping[Any, Value]) -> dict[int, Value]:
    """Return a map with its keys (integers, or texts of integers) as integers; raises CodecError for other texts."""
    try:
        return {int(key): value for key, value in mapping.items()}
    except (TypeError, ValueError):
        raise CodecError(
            "JSON: a key is not a whole number; the first keys are "
            f"{', '.join(as_given(key, 40) for key in list(mapping)[:5])}"
        ) from None


# --- writing


def dumps(
    value: object, *, pretty: bool = False, sort_keys: bool = False, quote_keys: bool = False
) -> bytes:
    """Encode a value nearly as fastjson does; object members that are None are omitted.

    Args:
        value: Dicts (keys: str, int, `FrozenObject`), lists, tuples, sets, str, numbers, bool and None.
        pretty: Use the indented form of the files in `config/`.
        sort_keys: Sort members by name, as fastjson writes Java beans.
        quote_keys: Quote keys that are numbers or objects: standard JSON, for peers that ask for it.

    Raises:
        CodecError: The value is nested deeper than 32 levels; not checked if orjson writes it (not `pretty`).
        TypeError: A part of the value has no JSON form.
    """
    if not pretty:
        # orjson is twenty times as fast. It writes None members, hence the check below. It also writes DEL unescaped
        # and 1e300 for 1.0E300, which every reader accepts.
        options = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
        options |= orjson.OPT_SORT_KEYS if sort_keys else 0
        options |= orjson.OPT_NON_STR_KEYS if quote_keys else 0
        try:
            raw = orjson.dumps(value, default=_plain, option=options)
        except TypeError:
            pass  # Probably a number or an object as a key.
        else:
            if b":null" not in raw:
                return raw
    writer = _Writer(is_pretty=pretty, is_sorted=sort_keys, is_quoted=quote_keys)
    writer.write(value, "\n", 1)
    return "".join(writer.parts).encode("utf-8", "replace")


def _plain(value: object) -> object:
    if isinstance(value, set | frozenset):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


class _Writer:
    """Collects the text of one value in `parts`; `line` arguments are a line break with indentation."""

    def __init__(self, *, is_pretty: bool, is_sorted: bool, is_quoted: bool) -> None:
        self.parts: list[str] = []
        self._keys: dict[tuple[str, str], str] = {}
        self._is_pretty = is_pretty
        self._is_sorted = is_sorted
        self._is_quoted = is_quoted

    def write(self, value: object, line: str, depth: int) -> None:
        """Append a value to the text; raises CodecError beyond 32 levels, TypeError for a type without JSON form."""
        if depth > NESTING_MAX and isinstance(value, _HOLDERS):
            raise CodecError(f"JSON: more than {NESTING_MAX} levels")
        match value:
            case str():
                self.parts.append(_quoted(value))
            case None:
                self.parts.append("null")
            case bool():
                self.parts.append("true" if value else "false")
            case int():
                self.parts.append(str(int(value)))
            case float():
                self.parts.append(_java_double(value))
            case dict() | Mapping():
                self._write_object(value, line, depth)
            case list() | tuple() | set() | frozenset():
                self._write_array(value, line, depth)
            case _:
                raise TypeError(f"{type(value).__name__} has no JSON form")

    def _write_object(self, content: Mapping[Any, object], line: str, depth: int) -> None:
        """Append an object without members that are None; in the indented form, only string keys start a new line."""
        inner = line + "\t"
        parts, keys = self.parts, self._keys
        items = content.items()
        if self._are_numbers(content):
            pairs = ",".join([f"{key}:{value}" for key, value in items])
            parts.append(f"{{{pairs}{line if self._is_pretty else ''}}}")
            return
        comma = "{"
        for key, value in sorted(items, key=_key_order) if self._is_sorted else items:
            if value is None:
                continue
            # Cache the encoded keys: files in config/ hold tens of thousands of objects with the same keys.
            kind = type(value)
            known = keys.get((key, inner)) if type(key) is str else None
            if known is None:
                known = self._key(key, inner, depth + 1)
            if kind is int:
                parts.append(f"{comma}{known}{value}")
                comma = ","
                continue
            parts.append(comma + known)
            comma = ","
            if kind is str:
                parts.append(_quoted(value))  # type: ignore[arg-type]
            elif kind is bool:
                parts.append("true" if value else "false")
            else:
                self.write(value, inner, depth + 1)
        if comma == "{":
            parts.append("{")
        if content and self._is_pretty:
            parts.append(line)
        parts.append("}")

    def _are_numbers(self, content: Mapping[Any, object]) -> bool:
        """Return whether all keys and values are integers (offset tables); False if empty, or if keys are to be quoted or sorted."""
        if (
            not content
            or self._is_quoted
            or self._is_sorted
            or type(next(iter(content))) is not int
        ):
            return False
        return set(map(type, content)) == {int} == set(map(type, content.values()))

    def _key(self, key: object, line: str, depth: int) -> str:
        """Return a key and a colon, in the indented form after a line break if it is a string; caches the first 256 strings."""
        if not isinstance(key, str):
            begin = len(self.parts)
            self._write_key(key, line, depth)
            text = "".join(self.parts[begin:]) + ":"
            del self.parts[begin:]
            return text
        text = f"{line if self._is_pretty else ''}{_quoted(key)}:"
        if len(self._keys) < _KEYS_KEPT:
            self._keys[key, line] = text
        return text

    def _write_key(self, key: object, line: str, depth: int) -> None:
        if self._is_quoted:
            self.parts.append(_quoted(dumps(key).decode()))
        else:
            self.write(key, line, depth)

    def _write_array(self, items: Iterable[object], line: str, depth: int) -> None:
        """Append an array: between items of an indented `JavaList` with line breaks (ListSerializer), else without."""
        is_in_lines = self._is_pretty and isinstance(items, JavaList) and bool(items)
        inner = line + "\t" if is_in_lines else line
        before = inner if is_in_lines else ""
        self.parts.append("[")
        for index, item in enumerate(items):
            self.parts.append("," + before if index else before)
            self.write(item, inner, depth + 1)
        self.parts.append(line + "]" if is_in_lines else "]")


def _key_order(member: tuple[object, object]) -> tuple[int, int, str]:
    key = member[0]
    if isinstance(key, int):
        return 0, key, ""
    return 1, 0, key if isinstance(key, str) else dumps(key, sort_keys=True).decode()


def _quoted(text: str) -> str:
    if _SPECIAL.search(text):
        text = _SPECIAL.sub(_escaped, text)
    return f'"{text}"'


def _escaped(special: re.Match[str]) -> str:
    return _SHORT_ESCAPES.get(special[0]) or f"\\u{ord(special[0]):04X}"


def _java_double(value: float) -> str:
    """Format a float in the form of Java's `Double.toString`: 1.0E7 for 10000000.0; null for NaN and infinity."""
    if value - value != 0:  # NaN or infinite.
        return "null"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    power = int(exponent) + len(digits) - 1
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{power}"
