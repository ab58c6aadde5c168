"""A table that a slave copies from its master; its owner defines how it is decoded and applied."""

from collections.abc import Callable
from typing import Any, NamedTuple

from cometmq.steps.steps import Steps


def _never_changes() -> None:
    return None


def _notes_nothing(_end: int | None) -> Steps[None]:
    yield from ()


class MasterTable(NamedTuple):
    """A table that a slave copies from its master.

    Attributes:
        code: Code of the request that returns the table.
        decode: Decodes the body, in any thread. Raises CodecError.
        take: Applies the decoded table. The second argument is the physical offset up to which it covers the log, if the
            two logs match; otherwise it is None, and some tables keep entries that the master lacks.
        state: Its result changes when the table has changed here, so that an unchanged body must be applied again.
        known: Called after each copy, even if nothing changed, with the second argument that `take` gets.
        needs_log: Whether the table is only valid once the log here contains what the master's contained. Then `state`
            and `known` are not used.
    """

    code: int
    decode: Callable[[bytes], Any]
    take: Callable[[Any, int | None], Steps[None]]
    state: Callable[[], object] = _never_changes
    known: Callable[[int | None], Steps[None]] = _notes_nothing
    needs_log: bool = False
