"""A query's filters as conditions on columns, and whether Spark is about to tell them.

Spark checks every filter again, so a source that reads too much is right; what is not understood here is
no condition.

Next: cometmq.spark.source.filters
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from types import FrameType
from typing import Any, Self

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

# The module in which Spark 4.1-4.3 makes a reader to push filters down, and nowhere else.
PUSH_DOWN_MODULE = "pyspark.sql.worker.data_source_pushdown_filters"

# Store times ascend, but for a clock that was set back: NTP steps by seconds.
STORE_TIME_MARGIN_MS = 60_000

LEAST, MOST = -(1 << 63), (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Bounds = tuple[int, int]
"""A closed range."""


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


@dataclass(frozen=True)
class Conditions:
    """What the rows of a query have in common.

    Attributes:
        choices: column -> the values of which it has one.
        bounds: column -> the closed range in which it lies; times as ms since 1970.
    """

    choices: Mapping[str, frozenset[Any]] = field(default_factory=dict)
    bounds: Mapping[str, Bounds] = field(default_factory=dict)

    @classmethod
    def of(cls, filters: Iterable[Filter]) -> Self:
        """From the filters that all hold."""
        return reduce(cls._and, filters, cls())

    def allows(self, column: str, value: Any) -> bool:
        """Whether a row may have this value."""
        return column not in self.choices or value in self.choices[column]

    def span(self, column: str) -> Bounds:
        """From the least to the greatest number that a column may have."""
        low, high = self.bounds.get(column, (LEAST, MOST))
        numbers = [_number(value) for value in self.choices.get(column, ())]
        known = [number for number in numbers if number is not None]
        if column in self.choices and len(known) == len(numbers):
            return max(low, min(known, default=MOST)), min(high, max(known, default=LEAST))
        return low, high

    def _and(self, other: Filter) -> Self:
        path: Sequence[str] = getattr(other, "attribute", ())
        column = path[0] if len(path) == 1 else ""
        low: int | None = LEAST
        high: int | None = MOST
        match other:
            case EqualTo(_, value):
                return self._one_of(column, (value,))
            case In(_, values):
                return self._one_of(column, values)
            case GreaterThan(_, int(value)):
                low = value + 1
            case LessThan(_, int(value)):
                high = value - 1
            case GreaterThan(_, value) | GreaterThanOrEqual(_, value):
                low = _number(value)
            case LessThan(_, value) | LessThanOrEqual(_, value):
                high = _number(value)
        return self._between(column, low, high)

    def _one_of(self, column: str, values: Iterable[Any]) -> Self:
        given = frozenset(value for value in values if value is not None)
        allowed = given & self.choices[column] if column in self.choices else given
        return replace(self, choices={**self.choices, column: allowed})

    def _between(self, column: str, low: int | None, high: int | None) -> Self:
        if low is None or high is None:
            return self
        known_low, known_high = self.bounds.get(column, (LEAST, MOST))
        bounds = max(low, known_low), min(high, known_high)
        return replace(self, bounds={**self.bounds, column: bounds})


ANY_ROW = Conditions()  # Of a query whose filters nobody told.


def _number(value: Any) -> int | None:
    """A bound as a number: a whole number, or a time in ms, rounded down; None for others."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - _EPOCH) // timedelta(milliseconds=1)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
