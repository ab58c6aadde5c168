"""The caller of a service and the way to answer it: all that a service knows of the client."""

from collections.abc import Awaitable, Callable, Hashable
from typing import Protocol, TypeVar

T_contra = TypeVar("T_contra", contravariant=True)


class Caller(Protocol[T_contra]):
    """The client of one request; request handlers create it from a connection, tests from a list."""

    @property
    def owner(self) -> Hashable:
        """The connection whose quota of waiting requests this one counts in."""
        ...

    @property
    def is_gone(self) -> bool:
        """Whether nobody waits for an answer any more."""
        ...

    def hold(self) -> None:
        """Keep what an answer needs, because the request will wait."""
        ...

    def answer(self, work: Callable[[], T_contra | Awaitable[T_contra | None] | None]) -> None:
        """Do `work` and answer with its result or its error; None: it continues to wait."""
        ...
