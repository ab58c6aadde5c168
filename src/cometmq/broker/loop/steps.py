"""Steps of a machine, and the few things that a step waits for.

A machine is a class without a loop, a thread or a sleep. What it does bit by bit is a generator: it yields
what it waits for, and is sent what came of it. Whoever runs it decides how the waiting is done: on asyncio's
loop, under a clock that a test turns, or in an order that a seed chose (docs/design/0040).
"""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from cometmq.model.frozen import dataclass
from cometmq.store.positions import Durability

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Work that may wait for the device: it is done in a thread; its result, or its error, comes back."""

    work: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class OnDevice:
    """The log on the device, up to an offset (None: all that is written by now).

    False comes back where a flush failed or is late.
    """

    end_offset: int | None


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The log confirmed up to an offset: so safe that it may be told; a `Durability` comes back."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The end of this turn of the loop: others had their part of it, and may have joined."""


@dataclass(frozen=True, slots=True)
class CallBack:
    """Something that is begun, and calls back when it is over, never within `begin`: with its result, or None and its error.

    Steps that are stopped meanwhile are left at once, and what comes later is dropped.
    """

    begin: Callable[[Callable[[Any, BaseException | None], None]], None]


Wait = Elsewhere | OnDevice | Confirmed | TurnEnd | CallBack
# Yields waits, is sent what came of each, and returns what its caller wants.
Steps = Generator[Wait, Any, T]


def elsewhere(work: Callable[[], T]) -> Steps[T]:
    """Have `work` done in a thread; gives its result, raises its error."""
    result: T = yield Elsewhere(work)
    return result


def on_device(end_offset: int | None = None) -> Steps[bool]:
    """Wait until the log is on the device; gives False where a flush failed or is late."""
    is_there: bool = yield OnDevice(end_offset)
    return is_there


def confirmed(end_offset: int) -> Steps[Durability]:
    """Wait until the log is confirmed up to an offset; gives OK, or why it is not."""
    durability: Durability = yield Confirmed(end_offset)
    return durability


def called_back(
    begin: Callable[[Callable[[Any, BaseException | None], None]], None],
) -> Steps[Any]:
    """Begin something and wait until it calls back; gives its result, raises its error."""
    return (yield CallBack(begin))


def turn_end() -> Steps[None]:
    """Let everybody else have a turn."""
    yield TurnEnd()
