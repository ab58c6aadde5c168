"""The caller of a service and the way to answer it."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from cometmq.steps.steps import Steps

T_contra = TypeVar("T_contra", contravariant=True)


class Owner(Protocol):
    """A connection, as services see it: they limit the waiting requests of each."""

    @property
    def is_closed(self) -> bool:
        """Whether the connection is closed."""
        ...

    def __hash__(self) -> int: ...


class Caller(Protocol[T_contra]):
    """The client of one request, as services see it: they can answer it later."""

    @property
    def owner(self) -> Owner:
        """The connection whose quota of waiting requests this one counts in."""
        ...

    @property
    def is_gone(self) -> bool:
        """Whether the client's connection is closed, so that nobody waits for an answer."""
        ...

    def hold(self) -> None:
        """Release the request's fields and body, because the request will wait and its answer does not need them."""
        ...

    def answer(self, work: Callable[[], T_contra | Steps[T_contra | None] | None]) -> None:
        """Answer with the result or the error of `work`, which may return steps; None means that the request waits on."""
        ...
