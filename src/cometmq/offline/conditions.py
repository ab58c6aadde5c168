"""Conditions that all wanted rows of a query meet: possible values and ranges of columns.

Readers that use them may return too many rows, so the query must check these again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self

# Store times ascend, except after a clock was set back: NTP steps by seconds.
STORE_TIME_MARGIN_MS = 60_000

LEAST, MOST = -(1 << 63), (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Bounds = tuple[int, int]
"""A closed range."""


@dataclass(frozen=True)
class Conditions:
    """The conditions that all rows of a query meet.

    Attributes:
        choices: By column, the possible values.
        bounds: By column, the closed range of its values; times are ms since 1970.
    """

    choices: Mapping[str, frozenset[Any]] = field(default_factory=dict)
    bounds: Mapping[str, Bounds] = field(default_factory=dict)

    def allows(self, column: str, value: Any) -> bool:
        """Return whether the `choices` allow a row of the query this value in a column; `bounds` are not considered."""
        return column not in self.choices or value in self.choices[column]

    def span(self, column: str) -> Bounds:
        """Return the smallest and largest number a column may have: 64-bit limits if unknown, reversed if none is possible."""
        low, high = self.bounds.get(column, (LEAST, MOST))
        numbers = [number_of(value) for value in self.choices.get(column, ())]
        known = [number for number in numbers if number is not None]
        if column in self.choices and len(known) == len(numbers):
            return max(low, min(known, default=MOST)), min(high, max(known, default=LEAST))
        return low, high

    def with_choice(self, column: str, values: Iterable[Any]) -> Self:
        """Return conditions that also restrict a column to some values; None among them is ignored."""
        given = frozenset(value for value in values if value is not None)
        allowed = given & self.choices[column] if column in self.choices else given
        return replace(self, choices={**self.choices, column: allowed})

    def with_bounds(self, column: str, low: int | None, high: int | None) -> Self:
        """Return conditions that also restrict a column to a closed range; the same ones if a bound is None."""
        if low is None or high is None:
            return self
        known_low, known_high = self.bounds.get(column, (LEAST, MOST))
        bounds = max(low, known_low), min(high, known_high)
        return replace(self, bounds={**self.bounds, column: bounds})


ANY_ROW = Conditions()  # For a query without conditions.


def number_of(value: Any) -> int | None:
    """Return a bound as a number: an integer, or a time (with time zone) in ms, rounded down; None for other values."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - _EPOCH) // timedelta(milliseconds=1)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
