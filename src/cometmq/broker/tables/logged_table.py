"""A table whose changes are in the log of a group that elects its leader; its owner defines how they are applied."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from cometmq.codec.bodies.table_changes import ReadValue
from cometmq.steps.steps import Steps


class LoggedTable(NamedTuple):
    """A table whose changes are written to the log by the leader of a group, and applied by its other members.

    Attributes:
        name: Name of the table in records.
        all_keys: Returns the current keys.
        value: Returns the current value of a key as JSON value; None if there is none.
        read: Decodes a value. Raises CodecError.
        apply: Sets the decoded values of some keys, or removes the keys whose value is None.
    """

    name: str
    all_keys: Callable[[], Iterable[str]]
    value: Callable[[str], Mapping[str, object] | None]
    read: ReadValue
    apply: Callable[[Mapping[str, Any]], Steps[None]]
