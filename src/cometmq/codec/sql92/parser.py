"""Parser from tokens to nodes of an SQL92 expression, with the checks that Java makes while parsing.

Follows the grammar of SelectorParser.jj and the `create` functions of ComparisonExpression (RocketMQ 5.3.3), including
their surprises: NOT binds tighter than a comparison, and `<` takes neither string literals nor conditions. Three
differences: 0.0 is a literal, tokens after the end of the expression are an error, and there are limits of size.
"""

import sys
from typing import Literal, NoReturn

from cometmq.codec.sql92.nodes import (
    NUMBERS,
    Cast,
    Chain,
    Constant,
    Equal,
    In,
    Kind,
    Negation,
    Not,
    Operand,
    Order,
    Property,
    Search,
    Truth,
)
from cometmq.codec.sql92.tokens import Token, tokens_of
from cometmq.model.errors import ExpressionError
from cometmq.model.text import in_quotes

# Maximum nesting of brackets, NOTs and signs, and of comparisons of comparisons (a = 1 = TRUE); more than ten are
# unusual. The compiled functions call each other to this depth.
DEPTH_MAX = 100
# Maximum properties and values outside IN: 256 comparisons compile in 5 ms, some dozen are usual. Java has no limit.
OPERANDS_MAX = 512
# Maximum number of CONTAINS; each scans a whole value, so this many take 7 ms for a value of maximum length.
SEARCHES_MAX = 64
_INT32_END, _INT64_END = 1 << 31, 1 << 63
_INT64_DIGITS = 19
_SIGNS = ("<", "<=", ">", ">=")
_EQUALITIES = frozenset(("=", "<>", "IS"))
_COMPARISONS = frozenset((*_SIGNS, "CONTAINS", "STARTSWITH", "ENDSWITH", "BETWEEN", "IN"))
_NULL = Constant(Kind.NULL, None)
_LITERALS = {
    "TRUE": Constant(Kind.BOOLEAN, True),  # noqa: FBT003  A value, not a switch.
    "FALSE": Constant(Kind.BOOLEAN, False),  # noqa: FBT003
    "NULL": _NULL,
}


def parse(expression: str) -> Truth:
    """Parse a whole SQL92 expression; raises ExpressionError, with the column, if it is invalid."""
    return parse_counted(expression)[0]


def parse_counted(expression: str) -> tuple[Truth, int]:
    """Parse a whole SQL92 expression; also return its number of properties and values; raises as `parse`.

    The texts of IN and of searches and the NULL of IS NULL are not counted.
    """
    parser = _Parser(expression)
    return parser.whole(), parser.operand_count


class _Parser:
    """Recursive descent parser for one expression."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._tokens = tokens_of(expression)
        # Tokens as the grammar sees them: the text of signs, otherwise the kind.
        self._words = [text if kind == "sign" else kind for kind, text, _ in self._tokens]
        self._at = 0
        self._depth = 0
        self.operand_count = 0
        self._compared = 0
        self._searched = 0

    # --- tokens

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _took(self, word: str) -> bool:
        if self._words[self._at] != word:
            return False
        self._at += 1
        return True

    def _expect(self, word: str) -> None:
        if not self._took(word):
            self._fail(f"expected {word}, not {_shown(self._next)}")

    def _fail(self, reason: str, token: Token | None = None) -> NoReturn:
        raise ExpressionError(reason, self._expression, (token or self._next).column)

    # --- rules

    def whole(self) -> Truth:
        """Parse the whole expression; raises ExpressionError if it is invalid, for example if tokens are left."""
        first = self._next
        truth = self._truth(self._or(), first)
        if self._next.kind != "end":
            self._fail_behind()
        return truth

    def _fail_behind(self) -> NoReturn:
        word = self._next.text.upper()
        if word == "LIKE":
            self._fail(
                "RocketMQ's SQL92 has no LIKE; use CONTAINS, STARTSWITH or ENDSWITH 'text'"
            )
        self._fail(f"the expression ends before {_shown(self._next)}; AND or OR is missing")

    def _or(self) -> Operand:
        return self._chain("OR")

    def _chain(self, word: Literal["AND", "OR"]) -> Operand:
        begins = self._next
        left = self._chain("AND") if word == "OR" else self._equality()
        if self._words[self._at] != word:
            return left
        terms = [self._truth(left, begins)]
        while self._took(word):
            begins = self._next
            right = self._chain("AND") if word == "OR" else self._equality()
            terms.append(self._truth(right, begins))
        return Chain(word, tuple(terms))

    def _equality(self) -> Operand:
        left = self._comparison()
        while self._words[self._at] in _EQUALITIES:
            self._count_depth(left)
            sign = self._take()
            if sign.text == "=":
                left = self._equal(left, sign, self._comparison())
            elif sign.text == "<>":
                left = Not(self._equal(left, sign, self._comparison()))
            else:
                left = self._is_null(left)
        return left

    def _is_null(self, left: Operand) -> Operand:
        is_negated = self._took("NOT")
        if not self._took("NULL"):
            self._at -= 1 + is_negated
            self._fail("IS must be followed by NULL or NOT NULL; compare with TRUE by =")
        return Not(Equal(left, _NULL)) if is_negated else Equal(left, _NULL)

    def _count_depth(self, operand: Operand) -> None:
        """Count a comparison whose left operand is no property or constant; raises ExpressionError after DEPTH_MAX."""
        if not isinstance(operand, Property | Constant):
            self._compared += 1
            if self._compared > DEPTH_MAX:
                self._fail(f"more than {DEPTH_MAX} comparisons of comparisons; use AND and OR")

    def _comparison(self) -> Operand:
        left = self._unary()
        while True:
            begins = self._next
            is_negated = self._words[self._at] == "NOT"
            word = self._words[self._at + is_negated]
            if word not in _COMPARISONS or (is_negated and word in _SIGNS):
                return left
            self._count_depth(left)
            self._at += 1 + is_negated
            if word in _SIGNS:
                left = self._order(word, left, begins, self._unary())
            elif word == "BETWEEN":
                left = self._between(left, begins, is_negated=is_negated)
            elif word == "IN":
                left = self._in(left, begins, is_negated=is_negated)
            else:
                left = self._search(word, left, is_negated=is_negated)

    def _search(self, word: str, operand: Operand, *, is_negated: bool) -> Search:
        self._searched += word == "CONTAINS"
        if self._searched > SEARCHES_MAX:
            self._fail(f"CONTAINS is used more than {SEARCHES_MAX} times")
        return Search(word, operand, self._string(word), is_negated)

    def _unary(self) -> Operand:
        begins = self._next
        self._depth += 1
        if self._depth > DEPTH_MAX:
            self._fail(f"more than {DEPTH_MAX} levels of brackets and signs")
        try:
            if self._took("+"):
                return self._unary()
            if self._took("-"):
                return _negated(self._unary())
            if self._took("NOT"):
                begins = self._next
                return Not(self._truth(self._unary(), begins))
            if self._took("("):
                inner = self._or()
                self._expect(")")
                return inner
            return self._literal(begins)
        finally:
            self._depth -= 1

    def _literal(self, token: Token) -> Operand:
        self.operand_count += 1
        if self.operand_count > OPERANDS_MAX:
            self._fail(f"more than {OPERANDS_MAX} properties and values; use IN ('a', 'b')")
        if token.kind == "name":
            self._take()
            return Property(token.text)
        if token.kind == "string":
            self._take()
            return Constant(Kind.STRING, token.text)
        if token.kind in _LITERALS:
            self._take()
            return _LITERALS[token.kind]
        if token.kind not in ("integer", "float"):
            self._fail(f"expected a property or a value, not {_shown(token)}")
        self._take()
        return self._integer(token) if token.kind == "integer" else self._float(token)

    def _integer(self, token: Token) -> Constant:
        digits = token.text.rstrip("lL")
        if len(digits) > _INT64_DIGITS or (value := int(digits)) >= _INT64_END:
            self._fail("the number is greater than 9223372036854775807", token)
        return Constant(Kind.INTEGER if value < _INT32_END else Kind.LONG, value)

    def _float(self, token: Token) -> Constant:
        value = float(token.text)
        if value > sys.float_info.max:
            self._fail("the number is greater than 1.7976931348623157E308", token)
        # Differs: ConstantExpression.createFloat of 5.3.3 also rejects 0.0, as less than Double.MIN_VALUE.
        if value == 0 and token.text.lower().partition("e")[0].strip("0."):
            self._fail("the number is less than 4.9E-324; write 0.0 for zero", token)
        return Constant(Kind.DOUBLE, value)

    # --- checks made by Java

    def _truth(self, node: Operand, begins: Token) -> Truth:
        """Return a node as a condition, a property as a `Cast`; raises ExpressionError for a value, also negated."""
        if isinstance(node, Property):
            return Cast(node)
        is_value = isinstance(node, Constant) and (
            not node.is_literal or node.kind not in (Kind.BOOLEAN, Kind.NULL)
        )
        if is_value or isinstance(node, Negation):
            self._fail("this is a value, not a condition; compare it with another", begins)
        return node

    def _equal(self, left: Operand, sign: Token, right: Operand) -> Equal:
        for side in (left, right):
            if side is _NULL:
                self._fail(f"NULL cannot be compared with {sign.text}; use IS NULL", sign)
        if (
            isinstance(left, Constant)
            and isinstance(right, Constant)
            and left.is_literal and right.is_literal
            and left.kind is Kind.BOOLEAN is not right.kind
        ):  # fmt: skip
            self._fail("a truth value cannot be compared with another type", sign)
        return Equal(left, right)

    def _order(self, sign: str, left: Operand, begins: Token, right: Operand) -> Order:
        for side in (left, right):
            if isinstance(side, Property | Negation):
                continue
            if isinstance(side, Constant) and side.kind in NUMBERS:
                continue
            self._fail(f"only properties and numbers can be compared with {sign}", begins)
        return Order(sign, left, right)

    def _between(self, value: Operand, begins: Token, *, is_negated: bool) -> Chain:
        low = self._unary()
        self._expect("AND")
        high = self._unary()
        # As in Java, NOT BETWEEN is not checked.
        if not is_negated and _falls(low, high):
            self._fail(
                "BETWEEN: the first value must be less than or equal to the second", begins
            )
        first, second, word = ("<", ">", "OR") if is_negated else (">=", "<=", "AND")
        terms = (
            self._order(first, value, begins, low), self._order(second, value, begins, high),
        )  # fmt: skip
        return Chain("OR" if word == "OR" else "AND", terms)

    def _in(self, operand: Operand, begins: Token, *, is_negated: bool) -> In:
        if not isinstance(operand, Property):
            self._fail("IN needs a property on its left", begins)
        self._expect("(")
        texts = {self._string("IN")}
        while self._took(","):
            texts.add(self._string("IN"))
        self._expect(")")
        return In(operand, frozenset(texts), is_negated)

    def _string(self, word: str) -> str:
        if self._next.kind != "string":
            self._fail(f"{word} needs strings in single quotes, not {_shown(self._next)}")
        return self._take().text


def _shown(token: Token) -> str:
    return "the end" if token.kind == "end" else in_quotes(token.text, 40)


def _negated(node: Operand) -> Constant | Negation:
    """Negate a number; other operands have no value when negated (UnaryExpression.createNegate)."""
    if isinstance(node, Constant) and node.kind in NUMBERS:
        assert isinstance(node.value, int | float)
        return Constant(node.kind, -node.value, is_literal=False)
    return Negation(node)


def _falls(low: Operand, high: Operand) -> bool:
    """Return whether both nodes are literal numbers and the second is less than the first."""
    for each in (low, high):
        if not isinstance(each, Constant) or not each.is_literal or each.kind not in NUMBERS:
            return False
    assert isinstance(low, Constant)
    assert isinstance(high, Constant)
    assert isinstance(low.value, int | float)
    assert isinstance(high.value, int | float)
    return high.value < low.value
