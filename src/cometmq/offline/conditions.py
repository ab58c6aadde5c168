"""Conditions that all wanted rows meet: values and ranges of columns.

Whoever reads less by them may read too much, never too little: the rows are checked again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self

# Store times ascend, but for a clock that was set back: NTP steps by seconds.
STORE_TIME_MARGIN_MS = 60_000

LEAST, MOST = -(1 << 63), (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Bounds = tuple[int, int]
"""A closed range."""


@dataclass(frozen=True)
class Conditions:
    """Conditions that all rows of a query meet.

    Attributes:
        choices: column -> the values of which it has one.
        bounds: column -> the closed range in which it lies; times as ms since 1970.
    """

    choices: Mapping[str, frozenset[Any]] = field(default_factory=dict)
    bounds: Mapping[str, Bounds] = field(default_factory=dict)

    def allows(self, column: str, value: Any) -> bool:
        """Whether a row may have this value."""
        return column not in self.choices or value in self.choices[column]

    def span(self, column: str) -> Bounds:
        """From the least to the greatest number that a column may have."""
        low, high = self.bounds.get(column, (LEAST, MOST))
        numbers = [number_of(value) for value in self.choices.get(column, ())]
        known = [number for number in numbers if number is not None]
        if column in self.choices and len(known) == len(numbers):
            return max(low, min(known, default=MOST)), min(high, max(known, default=LEAST))
        return low, high

    def with_choice(self, column: str, values: Iterable[Any]) -> Self:
        """Narrow to rows whose column has one of these values."""
        given = frozenset(value for value in values if value is not None)
        allowed = given & self.choices[column] if column in self.choices else given
        return replace(self, choices={**self.choices, column: allowed})

    def with_bounds(self, column: str, low: int | None, high: int | None) -> Self:
        """Narrow to rows whose column lies between two numbers, both included; None: no bound is known."""
        if low is None or high is None:
            return self
        known_low, known_high = self.bounds.get(column, (LEAST, MOST))
        bounds = max(low, known_low), min(high, known_high)
        return replace(self, bounds={**self.bounds, column: bounds})


ANY_ROW = Conditions()  # Of a query that asks for everything.


def number_of(value: Any) -> int | None:
    """A bound as a number: a whole number, or a time in ms, rounded down; None for others."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - _EPOCH) // timedelta(milliseconds=1)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
