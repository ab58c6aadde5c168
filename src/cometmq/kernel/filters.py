r"""Filters of pulls that are tested without an object for each message: by tags code, and by properties.

Compiled twin: `_filters`. A property filter may leave a message undecided; the slow path then answers the pull
(`cometmq.codec.sql92.filter` defines what an expression means). Without a compiler it decides none.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

ROWS_MAX = 64  # Rows of a property filter, and levels of them.
TEXTS_MAX = 256
# Limit of a pull through a property filter, in bytes of properties times rows of the filter (about 1 ns each). A larger one
# could hold the loop for milliseconds; the slow path interrupts it.
EFFORT_MAX = 1 << 20


class Test(IntEnum):
    """The test of a row of a property filter; an unknown result is neither true nor false.

    Attributes:
        AND: All of the rows that belong to it; the first false one decides.
        OR: Any of the rows that belong to it; the first true one decides.
        NOT: The opposite of the row after it.
        CONSTANT: The number: 1 is true, 0 is false and -1 is unknown.
        MISSING: Whether there is no such property.
        NEVER: False with such a property; otherwise unknown.
        AMONG: Whether the property is one of the texts; unknown without it.
        CONTAINS: Whether it contains the only text; false without it. So are the next two.
        STARTS: Whether it starts with the text.
        ENDS: Whether it ends with the text.
        INT32: Whether it compares with a number by `signs`, as a 32-bit integer; unknown without it. So are the next two.
        INT64: The same as a 64-bit integer.
        DOUBLE: The same as a double.
    """

    AND = 0
    OR = 1
    NOT = 2
    CONSTANT = 3
    MISSING = 4
    NEVER = 5
    AMONG = 6
    CONTAINS = 7
    STARTS = 8
    ENDS = 9
    INT32 = 10
    INT64 = 11
    DOUBLE = 12


class FilterRow(NamedTuple):
    r"""A row of a property filter.

    Attributes:
        test: What it tests, one of `Test`.
        rest: Number of rows after this one that belong to it.
        name: Name of the property, and \x01; empty without a property.
        texts: Texts that the property is compared with.
        signs: Relations of the property to the number for which the test is true: 1 less, 2 equal, 4 greater, added up.
        number: Number that the property is compared with.
        is_negated: Whether a comparison with texts is true if none of them matches.
    """

    test: int
    rest: int = 0
    name: bytes = b""
    texts: tuple[bytes, ...] = ()
    signs: int = 0
    number: float = 0
    is_negated: bool = False


class TagCodes:
    """The tags codes of a subscription; call it with a code to test it."""

    def __init__(self, codes: Iterable[int]) -> None:
        """`codes` are tags codes, numbers of 64 bits."""
        self._codes = frozenset(codes)

    def __call__(self, code: int) -> bool:
        """Return whether a tags code is one of the subscription's."""
        return code in self._codes


class PropertyFilter:
    """A condition on the properties of a message; without a compiler, it leaves the decision to the slow path."""

    def __init__(self, rows: tuple[FilterRow, ...]) -> None:
        """Create a filter from rows in their order: each is followed by the rows that belong to it.

        Raises:
            ValueError: There are none, more than ROWS_MAX, or more than TEXTS_MAX texts.
        """
        if not 0 < len(rows) <= ROWS_MAX or sum(len(row.texts) for row in rows) > TEXTS_MAX:
            raise ValueError("no rows, or too many")

    def matches(self, block: bytes) -> bool | None:
        """Return whether the condition is true for a property block; None (always here): the slow path must decide."""
        return None
