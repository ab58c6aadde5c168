"""Objects of a JSON body, read so that whatever is wrong is named.

A body comes from a peer: any field may be missing, null or of another kind. As Java's readers do,
these take null for missing and a number written as text; everything else that does not fit is a
CodecError which says which field of what.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from cometmq.codec import fastjson
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import CodecError

Value = TypeVar("Value")

# Bodies of requests. A broker reads them on its loop, where 4,096 subscriptions take 24 ms and an
# official client sends a few dozen; one that is no strict JSON takes twenty times as long as one that is.
REQUEST_SIZE_MAX = 1 << 20
REQUEST_PARTS_MAX = 4096
REQUEST_MEMBERS_MAX = 8 * REQUEST_PARTS_MAX
LENIENT_SIZE_MAX = 8192
_PART_MARKS = (b"{", b"[", b"||")


class JsonObject:
    """One object, and where it stood: its text is the path that errors show."""

    __slots__ = ("_above", "_name", "_values")

    def __init__(self, values: Any, name: str, above: "JsonObject | None" = None) -> None:
        """An object called `name`, within the object `above`.

        Raises:
            CodecError: `values` is no object.
        """
        self._name = name
        self._above = above
        if not isinstance(values, dict):
            raise CodecError(f"{self} must be an object, not {_shown(values)}")
        self._values = values

    def __str__(self) -> str:
        # Made only when something is wrong: a registration has thousands of objects.
        return self._name if self._above is None else f"{self._above}.{self._name}"

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def text(self, key: str, default: str | None = None) -> str:
        """A text; required where no default is given."""
        value = self._values.get(key)
        if value is None:
            return self._required(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, "a text", value)
        return value

    def maybe_text(self, key: str) -> str | None:
        """A text, or None where there is none."""
        return self.text(key) if key in self else None

    def int32(self, key: str, default: int | None = None) -> int:
        """A Java int; required where no default is given."""
        return self._integer(key, default, bits=32)

    def int64(self, key: str, default: int | None = None) -> int:
        """A Java long; required where no default is given."""
        return self._integer(key, default, bits=64)

    def _integer(self, key: str, default: int | None, *, bits: int) -> int:
        value = self._values.get(key)
        if value is None:
            return self._required(key, default)
        number = _as_integer(value, bits)
        if number is None:
            raise self._wrong(key, f"a number of {bits} bits", value)
        return number

    def flag(self, key: str, default: bool | None = None) -> bool:  # noqa: FBT001  It is the value.
        """A truth value; required where no default is given."""
        value = self._values.get(key)
        if value is None:
            return self._required(key, default)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false", value)
        return value

    def member(self, key: str) -> "JsonObject":
        """An object; empty where it is missing."""
        value = self._values.get(key)
        return JsonObject({} if value is None else value, key, self)

    def objects(self, key: str) -> Iterator["JsonObject"]:
        """The objects of a list; none where it is missing."""
        for index, value in enumerate(self._list(key)):
            yield JsonObject(value, f"{key}[{index}]", self)

    def texts(self, key: str) -> tuple[str, ...]:
        """The texts of a list; none where it is missing."""
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
        """A table with names; empty where it is missing. `read` takes the value of one name."""
        part = self.member(key)
        return {str(name): read(part, name) for name in part.names()}

    def numbered(
        self, key: str, read: "Callable[[JsonObject, str], Value]"
    ) -> dict[int, Value]:
        """A table with numbers for names, as of addresses by broker id."""
        part = self.member(key)
        return {_as_key(name, part): read(part, name) for name in part.names()}

    def text_table(self, key: str) -> dict[str, str]:
        """A table of texts; empty where it is missing."""
        return self.table(key, JsonObject.text)

    def names(self) -> Iterator[Any]:
        """The names whose value is not null, as the body has them: texts or numbers."""
        return (name for name, value in self._values.items() if value is not None)

    def raw(self) -> Mapping[str, Any]:
        """The whole object, for what is only kept and handed on."""
        return self._values

    def version(self, key: str) -> DataVersion:
        """A data version; zero where it is missing."""
        return self.member(key).as_version()

    def as_version(self) -> DataVersion:
        """Read this object as a data version; 4.9 has no stateVersion."""
        return DataVersion(
            self.int64("timestamp", 0), self.int64("counter", 0), self.int64("stateVersion", 0)
        )

    def _required(self, key: str, default: Value | None) -> Value:
        if default is None:
            raise CodecError(f"{self}: {key} is missing")
        return default

    def _wrong(self, key: str, wanted: str, value: Any) -> CodecError:
        return CodecError(f"{self}: {key} must be {wanted}, not {_shown(value)}")


def load_object(content: bytes | str, what: str) -> JsonObject:
    """The object that a body is; `what` names it in errors.

    Raises:
        CodecError: it is no JSON, or no object.
    """
    try:
        value = fastjson.loads(content)
    except CodecError as error:
        raise CodecError(f"{what}: {error}") from None
    return JsonObject(value, what)


def load_request(content: bytes | str, what: str) -> JsonObject:
    """The object that the body of a request is, which must be of a size that is soon read.

    Raises:
        CodecError: it is no JSON, no object, or too large: REQUEST_SIZE_MAX bytes, REQUEST_PARTS_MAX
            objects, lists and tags, REQUEST_MEMBERS_MAX members, LENIENT_SIZE_MAX bytes where it is
            no strict JSON.
    """
    raw = content.encode() if isinstance(content, str) else content
    if len(raw) > REQUEST_SIZE_MAX:
        raise CodecError(f"{what}: {len(raw)} bytes; {REQUEST_SIZE_MAX} is the most")
    if len(raw) > REQUEST_PARTS_MAX:
        count, members = sum(map(raw.count, _PART_MARKS)), raw.count(b":")
        if count > REQUEST_PARTS_MAX or members > REQUEST_MEMBERS_MAX:
            raise CodecError(
                f"{what}: {count} objects, lists and tags with {members} members; "
                f"{REQUEST_PARTS_MAX} with {REQUEST_MEMBERS_MAX} are the most, send it in pieces"
            )
    try:
        value = fastjson.loads(raw, lenient_size_max=LENIENT_SIZE_MAX)
    except CodecError as error:
        raise CodecError(f"{what}: {error}") from None
    return JsonObject(value, what)


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
    return f"{value!r:.60}"
