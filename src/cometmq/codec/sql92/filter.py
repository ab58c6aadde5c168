"""Compiled SQL92 expressions: `Sql92Filter.matches` tests one against the property block of a message."""

from cometmq.codec.sql92.compiler import compile_for_values, compile_truth, split_block
from cometmq.codec.sql92.parser import parse_counted
from cometmq.codec.sql92.rows import filter_rows
from cometmq.codec.sql92.values import Incomparable
from cometmq.kernel import PropertyFilter
from cometmq.model.bounded_cache import BoundedCache
from cometmq.model.errors import CodecError, ExpressionError

EXPRESSION_LENGTH_MAX = 32_768  # Hand-written expressions have a few hundred characters.
# Memory limit of the cache in bytes: some thousand expressions of usual size, with one or two per consumer group.
_KEPT_SIZE = 16 << 20
# Bytes of a compiled expression besides its text, and per character (measured: 118 to 150 beyond 100 characters).
_SIZE, _SIZE_A_CHARACTER = 3_000, 150
# From this many properties and values on, splitting the properties once is cheaper than searching for each: in
# properties of 32 KB a search takes 20 us.
_SPLIT_FROM = 24


class Sql92Filter:
    """A compiled SQL92 expression that is tested against messages.

    Attributes:
        expression: Its text as the user wrote it.
        fast: A filter of the kernel, which gives the same results or reports that `matches` must decide; None if the
            kernel cannot evaluate the expression.
    """

    __slots__ = ("_evaluate", "_is_split", "expression", "fast")

    def __init__(self, expression: str) -> None:
        """Parse and compile an expression; raises ExpressionError, with the column, if it is invalid or too large."""
        if len(expression) > EXPRESSION_LENGTH_MAX:
            raise ExpressionError(
                f"the expression has more than {EXPRESSION_LENGTH_MAX} characters",
                expression[:EXPRESSION_LENGTH_MAX],
                EXPRESSION_LENGTH_MAX,
            )
        self.expression = expression
        node, operand_count = parse_counted(expression)
        self._is_split = operand_count >= _SPLIT_FROM
        self._evaluate = (compile_for_values if self._is_split else compile_truth)(node)
        rows = filter_rows(node)
        self.fast = None if rows is None else PropertyFilter(rows)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.expression!r}>"

    def matches(self, block: bytes) -> bool:
        """Return whether the expression is true for a message with this property block.

        Unknown does not count as true. An impossible comparison, such as that of a value `abc` with 5, ends the
        evaluation, and the result is False.
        """
        try:
            properties = split_block(block) if self._is_split else b"\x02%b\x02" % block
            return self._evaluate(properties) is True
        except (Incomparable, CodecError):
            return False


_filters: BoundedCache[str, Sql92Filter] = BoundedCache(
    Sql92Filter,
    size_of=lambda text, _filter: _SIZE + _SIZE_A_CHARACTER * len(text),
    size_max=_KEPT_SIZE,
)


def sql92_filter(expression: str) -> Sql92Filter:
    """Return the compiled filter of an SQL92 expression, from a cache if possible.

    Raises:
        ExpressionError: The expression is invalid or beyond a limit; the error contains the column.
    """
    return _filters[expression]


def known_filter(expression: str) -> Sql92Filter | None:
    """Return the compiled filter of an SQL92 expression if it is in the cache; None otherwise, since compiling may take long."""
    return _filters.get(expression)
