"""A table whose changes are in the log of a group that elects its leader; its owner defines how they are applied."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from cometmq.broker.tables.saving import Logged
from cometmq.codec.bodies.consumer_offset import TOPIC_GROUP_SEPARATOR
from cometmq.codec.bodies.json_object import JsonObject
from cometmq.codec.bodies.table_changes import ReadValue
from cometmq.model.numbers import whole_number
from cometmq.steps.steps import Steps


class LogWaiter(Protocol):
    """An object that waits until changes are in the log of a group, such as the `Saver` of a table."""

    logged: Logged


class LoggedTable(NamedTuple):
    """A table whose changes are written to the log by the leader of a group, and applied by its other members.

    Attributes:
        name: Name of the table in records.
        all_keys: Returns the current keys.
        value: Returns the current value of a key as JSON value; None if there is none.
        read: Decodes a value. Raises CodecError.
        apply: Sets the decoded values of some keys, or removes the keys whose value is None.
        on_change: Called with the key of each change; the leader appends the function that notes it.
        waiter: Gets the function that waits for the log, on the leader; None for progress, because no caller waits for it.
    """

    name: str
    all_keys: Callable[[], Iterable[str]]
    value: Callable[[str], Mapping[str, object] | None]
    read: ReadValue
    apply: Callable[[Mapping[str, Any]], Steps[None]]
    on_change: list[Callable[[str], None]]
    waiter: LogWaiter | None = None


def numbers_json(numbers: Mapping[int, int]) -> Mapping[str, object] | None:
    """Return numbers by number, such as offsets by queue, as the value of a key; None if there are none."""
    return {str(key): number for key, number in numbers.items()} or None


def numbers_of(part: JsonObject, key: str) -> dict[int, int]:
    """Decode the value that `numbers_json` returned. Raises CodecError if it is malformed."""
    return part.numbered(key, JsonObject.int64)


def place_key(group: str, topic: str, queue_id: int) -> str:
    """Return the key of a table with values by group and queue: "topic@queue@group"."""
    return TOPIC_GROUP_SEPARATOR.join((topic, str(queue_id), group))


def place_of(key: str) -> tuple[str, str, int]:
    """Return group, topic and queue of a `place_key`; a malformed one has the queue -1, which no topic has."""
    topic, _, rest = key.partition(TOPIC_GROUP_SEPARATOR)
    queue_id, _, group = rest.partition(TOPIC_GROUP_SEPARATOR)
    number = whole_number(queue_id)
    return group, topic, -1 if number is None else number
