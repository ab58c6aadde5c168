"""A compiled expression: `matches` says whether a message with this property block is wanted."""

from cometmq.codec.sql92.compiler import compile_for_values, compile_truth, split_block
from cometmq.codec.sql92.parser import parse_counted
from cometmq.codec.sql92.values import Incomparable
from cometmq.model.bounded_cache import BoundedCache
from cometmq.model.errors import CodecError, ExpressionError

EXPRESSION_LENGTH_MAX = 32_768  # Characters; what is written by hand has some hundred.
# Compiled expressions that are kept, one or two for each consumer group: some thousand of the usual size, bytes.
_KEPT_SIZE = 8 << 20
# What a compiled one takes beside its text, and for each of its characters at most (measured: 40 for "a OR a OR ..."), bytes.
_SIZE, _SIZE_A_CHARACTER = 1_000, 100
# From so many properties and values on it is cheaper to split a message's properties once than to search for each: where
# they have 32 KB a search takes 20 us.
_SPLIT_FROM = 24


class Sql92Filter:
    """An expression that is ready to be evaluated.

    Attributes:
        expression: as the user wrote it.
    """

    __slots__ = ("_evaluate", "_is_split", "expression")

    def __init__(self, expression: str) -> None:
        """Parse and compile.

        Raises:
            ExpressionError: it is no expression; with the column.
        """
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

    def __repr__(self) -> str:
        """The expression."""
        return f"<{type(self).__name__} {self.expression!r}>"

    def matches(self, block: bytes) -> bool:
        """Whether the expression is true of a message.

        Unknown is not true, and neither is a comparison that cannot be done, such as 'abc' > 5.

        Args:
            block: the message's properties as its record has them.
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
    """The filter of an expression; compiled once, and kept for a while.

    Raises:
        ExpressionError: it is no expression; with the column.
    """
    return _filters[expression]
