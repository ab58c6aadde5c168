"""A query's filters as conditions on columns, and whether Spark is about to tell them.

Spark checks every filter again, so a source that reads too much is right; what is not understood here is
no condition.
"""

import sys
from collections.abc import Iterable, Sequence
from functools import reduce
from types import FrameType
from typing import TypeVar

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from cometmq.offline.conditions import LEAST, MOST, Conditions, number_of

# The module in which Spark 4.1-4.3 makes a reader to push filters down, and nowhere else.
PUSH_DOWN_MODULE = "pyspark.sql.worker.data_source_pushdown_filters"

Kept = TypeVar("Kept", bound=Conditions)


def is_asked() -> bool:
    """Whether who called has filters to give.

    While push-down is off, Spark refuses every reader that takes filters; so one that does is
    made only where they are told.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  The one way to know who asks.
    while frame is not None:
        # The module may run as the program, where its name is not its own.
        spec = frame.f_globals.get("__spec__")
        if PUSH_DOWN_MODULE in (frame.f_globals.get("__name__"), getattr(spec, "name", None)):
            return True
        frame = frame.f_back
    return False


def conditions_of(filters: Iterable[Filter], known: Kept) -> Kept:
    """The known conditions of rows, and that all filters hold.

    Args:
        filters: of a query.
        known: conditions of the same rows.
    """
    return reduce(_and, filters, known)


def _and(known: Kept, other: Filter) -> Kept:
    path: Sequence[str] = getattr(other, "attribute", ())
    column = path[0] if len(path) == 1 else ""
    low: int | None = LEAST
    high: int | None = MOST
    match other:
        case EqualTo(_, value):
            return known.with_choice(column, (value,))
        case In(_, values):
            return known.with_choice(column, values)
        case GreaterThan(_, int(value)):
            low = value + 1
        case LessThan(_, int(value)):
            high = value - 1
        case GreaterThan(_, value) | GreaterThanOrEqual(_, value):
            low = number_of(value)
        case LessThan(_, value) | LessThanOrEqual(_, value):
            high = number_of(value)
    return known.with_bounds(column, low, high)
