"""Work in two parts: each item is prepared on its own, and the prepared items are stored together."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from cometmq.steps.steps import Steps


class Prepared(Protocol):
    """An item that is ready to be stored.

    Attributes:
        error: Why it was not stored; None if it was, or if there was nothing to store.
        is_stored: Whether there is something to store, so that it depends on the write that it shares.
    """

    error: Exception | None

    @property
    def is_stored(self) -> bool: ...  # noqa: D102


Item = TypeVar("Item", bound=Prepared)
# Stores prepared items with one write before its first wait, sets the errors of those that fail, and waits until the others
# are confirmed; raises if they are not.
Store = Callable[[Sequence[Item]], Steps[None]]


def stored_alone(preparing: Steps[Item], store: Store[Item]) -> Steps[Item]:
    """Prepare one item and store it; return it, or raise its error."""
    item = yield from preparing
    yield from store([item])
    if item.error is not None:
        raise item.error
    return item
