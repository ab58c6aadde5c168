r"""Rows of a property filter of the kernel for an SQL92 condition, in which each term compares one property with constants.

Other conditions have no rows: the functions of `compiler` evaluate them. The kernel's results are the same. For some
messages it gives none, for example for a number in an unusual form; the functions then decide.
"""

from functools import partial

from cometmq.codec.sql92.nodes import (
    Cast,
    Chain,
    Constant,
    Equal,
    In,
    Kind,
    Not,
    Operand,
    Order,
    Property,
    Search,
    Truth,
)
from cometmq.kernel.filters import ROWS_MAX, TEXTS_MAX, FilterRow, Test

_NUMBERS = {Kind.INTEGER: Test.INT32, Kind.LONG: Test.INT64, Kind.DOUBLE: Test.DOUBLE}
_SIGNS = {"<": 1, "<=": 3, "=": 2, ">": 4, ">=": 6}
_SEARCHES = {"CONTAINS": Test.CONTAINS, "STARTSWITH": Test.STARTS, "ENDSWITH": Test.ENDS}
_TRUTHS = {True: 1, False: 0, None: -1}


class _NoRowsError(Exception):
    """A condition has a term that only the compiler's functions can evaluate."""


def filter_rows(node: Truth) -> tuple[FilterRow, ...] | None:
    """Return the rows of a condition; None if the kernel cannot evaluate it, for example because they are too many."""
    try:
        rows = tuple(_rows(node))
    except _NoRowsError:
        return None
    if len(rows) > ROWS_MAX or sum(len(row.texts) for row in rows) > TEXTS_MAX:
        return None
    return rows


def _rows(node: Truth) -> list[FilterRow]:
    if isinstance(node, Chain):
        below = [row for term in node.terms for row in _rows(term)]
        return [FilterRow(Test[node.word], len(below)), *below]
    if isinstance(node, Not):
        below = _rows(node.term)
        return [FilterRow(Test.NOT, len(below)), *below]
    if isinstance(node, Constant):
        if node.value not in (True, False, None) or node.kind in _NUMBERS:
            raise _NoRowsError
        return [
            FilterRow(
                Test.CONSTANT,
                number=_TRUTHS[bool(node.value) if node.value is not None else None],
            )
        ]
    return [_row(node)]


def _row(node: Cast | Equal | Order | In | Search) -> FilterRow:
    if isinstance(node, Cast | In | Search):
        row = partial(FilterRow, name=_name(node.operand))
        if isinstance(node, Cast):
            return row(Test.NEVER)
        if isinstance(node, In):
            texts = tuple(sorted(map(str.encode, node.texts)))
            return row(Test.AMONG, texts=texts, is_negated=node.is_negated)
        if not node.text:
            return FilterRow(Test.CONSTANT)  # False, with NOT as well.
        return row(
            _SEARCHES[node.word], texts=(node.text.encode(),), is_negated=node.is_negated
        )
    row = partial(FilterRow, name=_name(node.left))
    limit = node.right
    if not isinstance(limit, Constant):
        raise _NoRowsError
    if limit.kind in _NUMBERS:
        assert isinstance(limit.value, int | float)
        sign = node.sign if isinstance(node, Order) else "="
        return row(_NUMBERS[limit.kind], signs=_SIGNS[sign], number=limit.value)
    if limit.kind is Kind.NULL:
        return row(Test.MISSING)
    if limit.kind is not Kind.STRING:
        raise _NoRowsError
    return row(Test.AMONG, texts=(str(limit.value).encode(),))


def _name(operand: Operand) -> bytes:
    if not isinstance(operand, Property):
        raise _NoRowsError
    return b"%b\x01" % operand.name.encode()
