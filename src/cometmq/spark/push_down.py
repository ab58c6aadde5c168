"""Conversion of a Spark query's filters to column conditions, and detection of Spark's filter push-down step.

Spark applies every filter again, so a source may return too many rows; a filter that is not understood is ignored.
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

# Spark 4.1-4.3 runs this module to create a reader, push filters to it and plan its tasks.
PUSH_DOWN_MODULE = "pyspark.sql.worker.data_source_pushdown_filters"

Kept = TypeVar("Kept", bound=Conditions)


def is_asked() -> bool:
    """Return whether the caller runs in Spark's filter push-down step, which pushes filters to a reader and plans its tasks.

    While push-down is off, Spark rejects every reader that has `pushFilters`. Such a reader must therefore be created
    only in the push-down step.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  The only way to identify the caller.
    while frame is not None:
        # If the module runs as the main program, its __name__ is "__main__".
        spec = frame.f_globals.get("__spec__")
        if PUSH_DOWN_MODULE in (frame.f_globals.get("__name__"), getattr(spec, "name", None)):
            return True
        frame = frame.f_back
    return False


def conditions_of(filters: Iterable[Filter], known: Kept) -> Kept:
    """Return conditions `known` narrowed by the filters =, IN, and <, <=, >, >= with integers or zoned times; ignore others."""
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
