"""Steps of a background job or request, and the things that a step can wait for.

A job is a class without a loop, a thread or a sleep. Work that waits is a generator that yields what it waits for and
is sent the result. The runner decides how to wait: on asyncio's loop, with a clock that a test controls, or in an order
that a random seed chooses (docs/design/0040).
"""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from cometmq.model.frozen import dataclass
from cometmq.store.positions import Durability

T = TypeVar("T")

# Gets the result of an operation, or None and its error.
Done = Callable[[Any, BaseException | None], None]


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A wait for work that may block on the disk: it runs in a thread, and its result or error is sent back."""

    work: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class OnDevice:
    """A wait for a flush of the log up to an offset (None: all written so far); False is sent back if it fails or is late."""

    end_offset: int | None


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A wait until the log is confirmed up to an offset, so that it may be acknowledged; a `Durability` is sent back."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """A wait, to be yielded by steps, for the loop's next iteration: other work may have run then, and more requests arrived."""


@dataclass(frozen=True, slots=True)
class CallBack:
    """A wait for an operation that calls back with its result, or None and its error, rarely already within `begin`.

    Steps that are stopped meanwhile end at once, and a later result is dropped. With a limit of `seconds`, the steps
    get a TimeoutError when the operation has not called back until then.
    """

    begin: Callable[[Done], None]
    seconds: float | None = None


Wait = Elsewhere | OnDevice | Confirmed | TurnEnd | CallBack
# Yields waits, is sent the result of each, and returns a result to its caller.
Steps = Generator[Wait, Any, T]


def elsewhere(work: Callable[[], T]) -> Steps[T]:
    """Yield a wait for `work`, which runs in a thread; return its result or raise its error."""
    result: T = yield Elsewhere(work)
    return result


def at_once_or_elsewhere(work: Callable[[bool], T]) -> Steps[T]:
    """Return `work(False)`, which must not block; on BlockingIOError, yield a wait for `work(True)` in a thread.

    For reads of the disk: the argument is whether to wait for the device. What is in the page cache is usually read at once.
    """
    try:
        return work(False)  # noqa: FBT003
    except BlockingIOError:
        return (yield from elsewhere(lambda: work(True)))  # noqa: FBT003


def at_once(steps: Steps[T]) -> T | None:
    """Return the result of steps that end without a wait; stop them at their first wait and return None."""
    try:
        next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    steps.close()
    return None


def on_device(end_offset: int | None = None) -> Steps[bool]:
    """Yield a wait until the log is flushed up to an offset (None: its end); return whether it was flushed in time."""
    is_there: bool = yield OnDevice(end_offset)
    return is_there


def confirmed(end_offset: int) -> Steps[Durability]:
    """Yield a wait until the log is confirmed up to an offset; return a `Durability`: OK, or why it is not."""
    durability: Durability = yield Confirmed(end_offset)
    return durability


def called_back(begin: Callable[[Done], None], seconds: float | None = None) -> Steps[Any]:
    """Yield a wait for an operation, which begins then and calls back; return its result or raise its error.

    Raise TimeoutError if it has not called back within `seconds`; None: wait without limit.
    """
    return (yield CallBack(begin, seconds))


def turn_end() -> Steps[None]:
    """Yield a wait for the loop's next iteration, before which other work can run."""
    yield TurnEnd()
