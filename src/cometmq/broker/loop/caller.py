"""The caller of a service, and the way to answer: all that a service knows of the other side."""

from collections.abc import Awaitable, Callable, Hashable
from typing import Protocol, TypeVar

T_contra = TypeVar("T_contra", contravariant=True)


class Caller(Protocol[T_contra]):
    """One request's other side; `handlers` make it of a connection, tests of a list."""

    @property
    def owner(self) -> Hashable:
        """The connection in whose share of waiting requests this one counts."""
        ...

    @property
    def is_gone(self) -> bool:
        """Whether nobody waits for an answer any more."""
        ...

    def hold(self) -> None:
        """The request waits from now on: keep of it what an answer needs."""
        ...

    def answer(self, work: Callable[[], T_contra | Awaitable[T_contra | None] | None]) -> None:
        """Do `work` and answer with what it gives, or with its error; None: it waits on."""
        ...
