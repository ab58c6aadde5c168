"""Long lists, a page at a time, and names that hold what somebody looks for."""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from cometmq.dashboard.inputs import WrongInput

ROWS = 100
Row = TypeVar("Row")


class TablePage(NamedTuple, Generic[Row]):
    """A page of a list.

    Attributes:
        rows: of this page.
        page: its number, from 1.
        last: number of the last page; at least 1.
        total: rows of the whole list.
    """

    rows: Sequence[Row]
    page: int
    last: int
    total: int


def last_page(count: int, rows: int) -> int:
    """The number of the last page; 1 of an empty list."""
    return max(1, -(-count // rows))


def check_page(page: int, last: int) -> None:
    """A page that is there.

    Raises:
        WrongInput: it is behind the last.
    """
    if page > last:
        raise WrongInput(f"There is no page {page}; the last one is {last}.")


def table_page(whole: Sequence[Row], page: int, *, rows: int = ROWS) -> TablePage[Row]:
    """A page of a list.

    Raises:
        WrongInput: it is behind the last.
    """
    last = last_page(len(whole), rows)
    check_page(page, last)
    return TablePage(whole[(page - 1) * rows : page * rows], page, last, len(whole))
