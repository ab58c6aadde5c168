"""A table that a master has and its slave has, too: who owns it says how it is read and taken."""

from collections.abc import Callable
from typing import Any, NamedTuple

from cometmq.broker.loop.steps import Steps


def _never_changes() -> None:
    return None


def _notes_nothing(_end: int | None) -> Steps[None]:
    yield from ()


class MasterTable(NamedTuple):
    """One table that a slave copies from its master.

    Attributes:
        code: of the request that gives it.
        decode: reads its body; in any thread. CodecError: it means nothing.
        take: has what was read here. Its second argument: the logs fit, and what the master does not have goes, as far as
            its messages lie before this physical offset; None: that is not known, and nothing goes.
        state: changes when the table has changed here, and the same body is to be taken once more.
        known: Called after each look, also where nothing had changed, with the second argument of `take`.
        needs_log: it speaks of what the master put into its log, and is not true here before that has come.
    """

    code: int
    decode: Callable[[bytes], Any]
    take: Callable[[Any, int | None], Steps[None]]
    state: Callable[[], object] = _never_changes
    known: Callable[[int | None], Steps[None]] = _notes_nothing
    needs_log: bool = False
