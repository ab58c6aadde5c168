"""A compiled expression: `matches` says whether a message with this property block is wanted.

Next: cometmq.broker.sieve
"""

from functools import lru_cache

from cometmq.codec.sql92.compiler import compile_truth
from cometmq.codec.sql92.parser import parse
from cometmq.codec.sql92.values import Incomparable
from cometmq.model.errors import CodecError, ExpressionError

EXPRESSION_LENGTH_MAX = 32_768  # Characters; what is written by hand has some hundred.
_KEPT = 1_024  # Compiled expressions that are kept, one or two for each consumer group.


class Sql92Filter:
    """An expression that is ready to be evaluated.

    Attributes:
        expression: as the user wrote it.
    """

    __slots__ = ("_evaluate", "expression")

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
        self._evaluate = compile_truth(parse(expression))

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
            return self._evaluate(b"\x02%b\x02" % block) is True
        except (Incomparable, CodecError):
            return False


@lru_cache(_KEPT)
def sql92_filter(expression: str) -> Sql92Filter:
    """The filter of an expression; compiled once.

    Raises:
        ExpressionError: it is no expression; with the column.
    """
    return Sql92Filter(expression)
