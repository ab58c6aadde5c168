"""Splits long lists into pages of rows for the dashboard's tables."""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from cometmq.dashboard.inputs import WrongInput

ROWS = 100
Row = TypeVar("Row")


class TablePage(NamedTuple, Generic[Row]):
    """The rows of one page of a list.

    Attributes:
        rows: Rows of this page.
        page: Number of this page, from 1.
        last: Number of the last page; at least 1.
        total: Number of rows in the whole list; of messages with those that cannot be read.
        missing: Number of this page's messages that could not be read: for example deleted, or too large together.
    """

    rows: Sequence[Row]
    page: int
    last: int
    total: int
    missing: int = 0


def last_page(count: int, rows: int) -> int:
    """Return the number of the last page of `count` rows; 1 for an empty list."""
    return max(1, -(-count // rows))


def check_page(page: int, last: int) -> None:
    """Raise WrongInput if a page is after the last one; pages count from 1."""
    if page > last:
        raise WrongInput(f"Page {page} does not exist; the last page is {last}.")


def table_page(whole: Sequence[Row], page: int, *, rows: int = ROWS) -> TablePage[Row]:
    """Return one page of a list, with `rows` rows a page. Raises WrongInput if the page is after the last one."""
    last = last_page(len(whole), rows)
    check_page(page, last)
    return TablePage(whole[(page - 1) * rows : page * rows], page, last, len(whole))
