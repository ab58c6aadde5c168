"""Validated access to the objects of a JSON body, with errors that name the invalid field.

A body comes from a peer: any field may be missing, null or of another type. Like Java's readers, most accessors
treat null as missing, and those of numbers and booleans accept strings, too. Most other mismatches raise a CodecError
that names the field.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from cometmq.codec import fastjson
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import CodecError
from cometmq.model.text import as_given

Value = TypeVar("Value")

# Limits for request bodies. A broker parses them on its loop: 4,096 subscriptions take 24 ms, an official client sends
# a few dozen, and a body that is not strict JSON takes twenty times as long.
REQUEST_SIZE_MAX = 1 << 20
REQUEST_PARTS_MAX = 4096
REQUEST_MEMBERS_MAX = 8 * REQUEST_PARTS_MAX
LENIENT_SIZE_MAX = 8192
_PART_MARKS = (b"{", b"[", b"||")


class JsonObject:
    """A JSON object and its path, which errors show."""

    __slots__ = ("_above", "_name", "_values")

    def __init__(self, values: Any, name: object, above: "JsonObject | None" = None) -> None:
        """Wrap `values`, called `name` (as text) within the object `above`. Raises CodecError if `values` is no object."""
        self._name = name
        self._above = above
        if not isinstance(values, dict):
            raise CodecError(f"{self} must be an object, not {_shown(values)}")
        self._values = values

    def __str__(self) -> str:
        # Built only for errors, because a registration has thousands of objects.
        return str(self._name) if self._above is None else f"{self._above}.{self._name}"

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def text(self, key: str, default: str | None = None) -> str:
        """Return the string in a field, or the default if it is missing or null; CodecError if no string, or missing without default."""
        value = self._values.get(key)
        if value is None:
            return self._required(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, "a text", value)
        return value

    def maybe_text(self, key: str) -> str | None:
        """Return the string in a field, or None if it is missing or null; CodecError if it is no string."""
        return self.text(key) if key in self else None

    def int32(self, key: str, default: int | None = None) -> int:
        """Return the 32-bit integer in a field, or the default if it is missing; CodecError if invalid, or missing without default."""
        return self._integer(key, default, bits=32)

    def int64(self, key: str, default: int | None = None) -> int:
        """Return the 64-bit integer in a field, or the default if it is missing; CodecError if invalid, or missing without default."""
        return self._integer(key, default, bits=64)

    def _integer(self, key: str, default: int | None, *, bits: int) -> int:
        value = self._values.get(key)
        if value is None:
            return self._required(key, default)
        number = _as_integer(value, bits)
        if number is None:
            raise self._wrong(key, f"a number of {bits} bits", value)
        return number

    def flag(self, key: str, default: bool | None = None) -> bool:  # noqa: FBT001  The value to return.
        """Return the boolean in a field, or the default if it is missing; CodecError if invalid, or missing without default."""
        value = self._values.get(key)
        if value is None:
            return self._required(key, default)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false", value)
        return value

    def maybe_int64(self, key: str) -> int | None:
        """Return the 64-bit integer in a field, or None if it is missing or null; CodecError if it is invalid."""
        return self.int64(key) if key in self else None

    def rate(self, key: str) -> float:
        """Return the number in a field; 0 if it is missing or no number."""
        value = self._values.get(key)
        return float(value) if isinstance(value, int | float) else 0.0

    def maybe_flag(self, key: str) -> bool | None:
        """Return the boolean in a field, or None if it is missing or null; CodecError if it is invalid."""
        return self.flag(key) if key in self else None

    def member(self, key: str) -> "JsonObject":
        """Return the object in a field; an empty one if it is missing or null; CodecError if it is no object."""
        value = self._values.get(key)
        return JsonObject({} if value is None else value, key, self)

    def objects(self, key: str) -> Iterator["JsonObject"]:
        """Yield the objects of the list in a field; nothing if it is missing or null; CodecError for other content."""
        for index, value in enumerate(self._list(key)):
            yield JsonObject(value, f"{key}[{index}]", self)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the strings of the list in a field; empty if it is missing or null; CodecError for other content."""
        values = self._list(key)
        for value in values:
            if not isinstance(value, str):
                raise self._wrong(key, "a list of texts", value)
        return tuple(values)

    def _list(self, key: str) -> list[Any]:
        value = self._values.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._wrong(key, "a list", value)
        return value

    def table(self, key: str, read: "Callable[[JsonObject, str], Value]") -> dict[str, Value]:
        """Return the object in a field as a dict, empty if it is missing; `read(that object, name)` decodes the value of a name."""
        part = self.member(key)
        return {str(name): read(part, name) for name in part.names()}

    def numbered(
        self, key: str, read: "Callable[[JsonObject, str], Value]"
    ) -> dict[int, Value]:
        """Return like `table` an object whose names are integers, such as addresses by broker id, with integer keys."""
        part = self.member(key)
        return {_as_key(name, part): read(part, name) for name in part.names()}

    def text_table(self, key: str) -> dict[str, str]:
        """Return the object in a field as a dict of strings; empty if it is missing."""
        return self.table(key, JsonObject.text)

    def names(self) -> Iterator[Any]:
        """Return an iterator over the names, as they were parsed, whose values are not null."""
        return (name for name, value in self._values.items() if value is not None)

    def raw(self) -> Mapping[str, Any]:
        """Return the whole object as a mapping, without validation."""
        return self._values

    def version(self, key: str) -> DataVersion:
        """Return the data version in a field; zeros if it is missing."""
        return self.member(key).as_version()

    def as_version(self) -> DataVersion:
        """Return this object as a data version; missing numbers are 0 (4.9 has no stateVersion)."""
        return DataVersion(
            self.int64("timestamp", 0), self.int64("counter", 0), self.int64("stateVersion", 0)
        )

    def _required(self, key: str, default: Value | None) -> Value:
        if default is None:
            raise CodecError(f"{self}: {key} is missing")
        return default

    def _wrong(self, key: str, wanted: str, value: Any) -> CodecError:
        return CodecError(f"{self}: {key} must be {wanted}, not {_shown(value)}")


def load_object(
    content: bytes | str, what: str, *, lenient_size_max: int | None = None
) -> JsonObject:
    """Parse a body, called `what` in errors, like `fastjson.loads`; raises CodecError if malformed or no object."""
    try:
        value = fastjson.loads(content, lenient_size_max=lenient_size_max)
    except CodecError as error:
        raise CodecError(f"{what}: {error}") from None
    return JsonObject(value, what)


def request_share(part: bytes) -> int:
    """Return what an encoded part of a body takes of the limits of `load_request`, in marks, of REQUEST_PARTS_MAX for a body."""
    return max(
        sum(map(part.count, _PART_MARKS)),
        -(-part.count(b":") * REQUEST_PARTS_MAX // REQUEST_MEMBERS_MAX),
        -(-len(part) * REQUEST_PARTS_MAX // REQUEST_SIZE_MAX),
    )


def load_request(content: bytes | str, what: str) -> JsonObject:
    """Parse the body of a request like `load_object`, with limits so that parsing is fast.

    Raises:
        CodecError: The body cannot be parsed, is no object, or is too large: more than REQUEST_SIZE_MAX bytes,
            REQUEST_PARTS_MAX marks `{`, `[` and `||`, REQUEST_MEMBERS_MAX colons, or, if it is not strict JSON,
            LENIENT_SIZE_MAX bytes.
    """
    raw = content.encode() if isinstance(content, str) else content
    if len(raw) > REQUEST_SIZE_MAX:
        raise CodecError(f"{what}: it has {len(raw)} bytes; the limit is {REQUEST_SIZE_MAX}")
    if len(raw) > REQUEST_PARTS_MAX:
        count, members = sum(map(raw.count, _PART_MARKS)), raw.count(b":")
        if count > REQUEST_PARTS_MAX or members > REQUEST_MEMBERS_MAX:
            raise CodecError(
                f"{what}: it has {count} objects, lists and tags with {members} members; "
                f"at most {REQUEST_PARTS_MAX} with {REQUEST_MEMBERS_MAX} are allowed, so send it in parts"
            )
    return load_object(raw, what, lenient_size_max=LENIENT_SIZE_MAX)


def _as_key(name: Any, table: JsonObject) -> int:
    number = _as_integer(name, 64)
    if number is None:
        raise CodecError(f"{table}: the name {_shown(name)} must be a number")
    return number


def _as_integer(value: Any, bits: int) -> int | None:
    if type(value) is int:
        number = value
    elif isinstance(value, str):
        try:
            number = int(value)
        except ValueError:
            return None
    else:
        return None
    limit = 1 << bits - 1
    return number if -limit <= number < limit else None


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return as_given(value, 60)
