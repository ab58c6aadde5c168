"""Lists of the JSON members of a dataclass; one list both writes and reads its objects."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from cometmq.codec.bodies.json_object import JsonObject

Value = TypeVar("Value")


def _as_it_is(value: Any) -> Any:
    return value


class JsonMember(NamedTuple):
    """A member of a JSON object.

    Attributes:
        name: Its name in JSON.
        attribute: The attribute of the dataclass that has its value; a value None is not written.
        read: Reads its value: gets the object, the name and, unless the default is None, the default.
        default: Value if it is missing; None if `read` needs no default, or the member is required.
        write: Converts the value of the attribute to one of JSON.
    """

    name: str
    attribute: str
    read: Callable[..., Any]
    default: Any = None
    write: Callable[[Any], Any] = _as_it_is


class JsonMembers(Generic[Value]):
    """The members of a JSON object that stands for a dataclass, in the order in which they are written."""

    def __init__(self, make: Callable[..., Value], *members: JsonMember) -> None:
        """Set the members; `make` creates a value from its attributes, and is usually the dataclass itself."""
        self._make = make
        self._members = members

    def to_json(self, value: Value) -> dict[str, Any]:
        """Convert a value to a dict of JSON values, without the attributes that are None."""
        found = {}
        for name, attribute, _, _, write in self._members:
            content = getattr(value, attribute)
            if content is not None:
                found[name] = write(content)
        return found

    def list_of(self, values: Iterable[Value]) -> list[dict[str, Any]]:
        """Convert some values to a list for JSON."""
        return [self.to_json(value) for value in values]

    def of(self, part: JsonObject, **known: Any) -> Value:
        """Decode a value from its JSON object, except attributes given in `known`; raises CodecError if malformed."""
        for name, attribute, read, default, _ in self._members:
            if attribute not in known:
                known[attribute] = (
                    read(part, name) if default is None else read(part, name, default)
                )
        return self._make(**known)

    def in_field(self, part: JsonObject, key: str) -> Value:
        """Decode the value in a field, as from an empty object if it is missing; raises CodecError if malformed."""
        return self.of(part.member(key))

    def all_of(self, part: JsonObject, key: str) -> tuple[Value, ...]:
        """Decode the values of the list in a field, empty if it is missing; raises CodecError if one is malformed."""
        return tuple(self.of(each) for each in part.objects(key))
