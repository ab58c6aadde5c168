r"""Compiler from expression nodes to functions that return true, false or unknown (None) for a message.

Functions of a short expression get a property block between two \x02 and find a property by searching for \x02name\x01;
the last non-empty one of a name counts. An expression with many properties would scan the block for each; the functions
then get a dictionary instead, made once per message (`split_block`). The operand types of a comparison are known at
compile time. Follows `evaluate` of ComparisonExpression, LogicExpression and UnaryExpression (RocketMQ 5.3.3).
"""

import math
import operator
from collections.abc import Callable
from typing import Any, ClassVar

from cometmq.codec.properties import find_property
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
from cometmq.codec.sql92.values import (
    Incomparable,
    double_rank,
    read_boolean,
    read_double,
    read_int32,
    read_int64,
)

Evaluate = Callable[[Any], bool | None]
Fetch = Callable[[Any], bytes | None]
Value = Callable[[Any], Any]
Reading = Callable[[Any], Any]

_NOTHING = object()
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_SEARCHES: dict[str, Callable[[bytes, bytes], bool]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": bytes.startswith,
    "ENDSWITH": bytes.endswith,
}


def compile_truth(node: Truth) -> Evaluate:
    r"""Compile a condition to a function of a block between two \x02, which may raise Incomparable or CodecError."""
    return _Compiler(_searched).truth(node)


def compile_for_values(node: Truth) -> Evaluate:
    """Compile a condition to a function for results of `split_block`; the function may raise Incomparable."""
    return _Compiler(_looked_up).truth(node)


def split_block(block: bytes) -> dict[bytes, bytes]:
    """Return a property block's values by name, both as bytes; the last non-empty value of a name counts."""
    values = {}
    for piece in block.split(b"\x02"):
        name, _, value = piece.partition(b"\x01")
        if value:
            values[name] = value
    return values


# --- logic


def _constant(value: Any) -> Value:
    return lambda _block: value


def _joined(terms: list[Evaluate], *, decides: bool) -> Evaluate:
    """Join terms by AND, which one False decides, or by OR, which one True decides; else an unknown makes it unknown."""

    def evaluate(block: bytes) -> bool | None:
        result: bool | None = not decides
        for term in terms:
            truth = term(block)
            if truth is decides:
                return decides
            if truth is None:
                result = None
        return result

    return evaluate


# --- operands


def _searched(name: str) -> Fetch:
    plain = name.encode()
    key = b"\x02" + plain + b"\x01"
    size = len(key)

    def fetch(block: bytes) -> bytes | None:
        start = block.rfind(key)
        if start < 0:
            return None
        start += size
        value = block[start : block.find(b"\x02", start)]
        return value or _before_empty(block, plain)

    return fetch


def _before_empty(block: bytes, name: bytes) -> bytes | None:
    """Return the last non-empty value of a property, or None; raises CodecError if it is not UTF-8."""
    found = find_property(block, name)
    return None if found is None else found.encode()


def _looked_up(name: str) -> Fetch:
    plain = name.encode()
    return lambda values: values.get(plain)


def _nothing_of(get: Value) -> Value:
    def evaluate(block: bytes) -> None:
        get(block)

    return evaluate


# --- comparison


def _same(value: Any) -> Any:
    return value


def _never(_value: Any) -> object:
    """Return an object that equals nothing: Java does not call compareTo for these types (-1)."""
    return object()


def _refuse(_value: Any) -> Any:
    """Raise Incomparable: Boolean on the left and String on the right is a ClassCastException in Java."""
    raise Incomparable


def _double(text: bytes) -> float:
    """Parse a double for comparison with a finite one; NaN becomes infinity, because it is greater than all of them."""
    value = read_double(text)
    return math.inf if math.isnan(value) else value


_READ: dict[Kind, Reading] = {
    Kind.INTEGER: read_int32, Kind.LONG: read_int64, Kind.DOUBLE: _double,
    Kind.BOOLEAN: read_boolean, Kind.STRING: _same, Kind.NULL: _same,
}  # fmt: skip


def _readings(left: Kind, right: Kind) -> tuple[Reading, Reading]:
    """Return the conversions that make two operands comparable (ComparisonExpression.__compare)."""
    if left is right or Kind.NULL in (left, right):
        return _same, _same
    if left is Kind.STRING:
        return _READ[right], _same
    if right is Kind.STRING:
        return (_refuse, _same) if left is Kind.BOOLEAN else (_same, _READ[left])
    if Kind.BOOLEAN in (left, right):
        return _never, _same
    return (float, float) if Kind.DOUBLE in (left, right) else (_same, _same)


def _is_text(name: str, text: str) -> Evaluate:
    """Compile the most common term, property = 'text' (not empty), to a function that rarely slices the block."""
    fetch, key = _searched(name), b"\x02%b\x01" % name.encode()
    size, wanted = len(key), text.encode()
    ended = wanted + b"\x02"

    def evaluate(block: bytes) -> bool | None:
        start = block.rfind(key)
        if start < 0:
            return None
        if block.startswith(ended, start + size):
            return True
        if block[start + size] != 2:
            return False
        value = fetch(block)  # An empty value does not count.
        return None if value is None else value == wanted

    return evaluate


def _property_order(
    fetch: Fetch, read: Reading, compare: Callable[[Any, Any], bool], limit: object
) -> Evaluate:
    is_integer = read is read_int32  # The usual limit; most values then need no `read`.

    def evaluate(block: bytes) -> bool | None:
        value = fetch(block)
        if value is None:
            return None
        if is_integer and len(value) < 10 and value.isdigit():
            return compare(int(value), limit)
        return compare(read(value), limit)

    return evaluate


# --- nodes


class _Compiler:
    """Compiles the functions of one expression; `find` compiles the access to a property of a message."""

    def __init__(self, find: Callable[[str], Fetch]) -> None:
        self._property = find

    def truth(self, node: Truth) -> Evaluate:
        """Compile a condition to a function that returns True, False or None (unknown) for a message."""
        if isinstance(node, Constant):
            return _constant(node.value)
        make: Callable[[Any, Any], Evaluate] = self._MAKERS[type(node)]
        return make(self, node)

    def _chain(self, node: Chain) -> Evaluate:
        terms = [self.truth(term) for term in node.terms]
        return _joined(terms, decides=node.word == "OR")

    def _not(self, node: Not) -> Evaluate:
        term = self.truth(node.term)

        def evaluate(block: bytes) -> bool | None:
            truth = term(block)
            return None if truth is None else not truth

        return evaluate

    def _cast(self, node: Cast) -> Evaluate:
        fetch = self._property(node.operand.name)
        return lambda block: None if fetch(block) is None else False

    def _operand(self, node: Operand) -> tuple[Kind, Value]:
        if isinstance(node, Property):
            return Kind.STRING, self._property(node.name)
        if isinstance(node, Constant):
            value = node.value.encode() if isinstance(node.value, str) else node.value
            return node.kind, _constant(value)
        if isinstance(node, Negation):
            return Kind.NULL, _nothing_of(self._operand(node.operand)[1])
        return Kind.BOOLEAN, self.truth(node)

    def _equal(self, node: Equal) -> Evaluate:
        left, right = node.left, node.right
        if (
            isinstance(left, Property)
            and isinstance(right, Constant)
            and right.value is not None
        ):
            return self._property_equal(left, right)
        left_kind, left_value = self._operand(left)
        right_kind, right_value = self._operand(right)
        read_left, read_right = _readings(left_kind, right_kind)

        def evaluate(block: bytes) -> bool | None:
            first, second = left_value(block), right_value(block)
            if first is None:
                return True if second is None else None
            if second is None:
                return False
            return bool(read_left(first) == read_right(second))

        return evaluate

    def _property_equal(self, left: Property, right: Constant) -> Evaluate:
        if isinstance(right.value, str) and right.value and self._property is _searched:
            return _is_text(left.name, right.value)
        fetch, read = self._property(left.name), _READ[right.kind]
        wanted = right.value.encode() if isinstance(right.value, str) else right.value

        def evaluate(block: bytes) -> bool | None:
            value = fetch(block)
            return None if value is None else read(value) == wanted

        return evaluate

    def _order(self, node: Order) -> Evaluate:
        compare = _ORDERS[node.sign]
        left_kind, left_value = self._operand(node.left)
        right_kind, right_value = self._operand(node.right)
        read_left, read_right = _readings(left_kind, right_kind)
        if left_kind is right_kind is Kind.STRING:  # Strings are ordered if both are numbers.
            read_left = read_right = double_rank
        if right_kind in NUMBERS and isinstance(node.left, Property):
            assert isinstance(node.right, Constant)
            return _property_order(left_value, read_left, compare, node.right.value)

        def evaluate(block: bytes) -> bool | None:
            first = left_value(block)
            if first is None or (second := right_value(block)) is None:
                return None
            return compare(read_left(first), read_right(second))

        return evaluate

    def _in(self, node: In) -> Evaluate:
        fetch, is_negated = self._property(node.operand.name), node.is_negated
        texts = frozenset(map(str.encode, node.texts))

        def evaluate(block: bytes) -> bool | None:
            value = fetch(block)
            return None if value is None else (value in texts) is not is_negated

        return evaluate

    def _search(self, node: Search) -> Evaluate:
        kind, get = self._operand(node.operand)
        text, find, is_negated = node.text.encode(), _SEARCHES[node.word], node.is_negated
        if not text:
            return _constant(value=False)
        if kind is not Kind.STRING:  # Never true, but evaluated, because it may raise.
            return lambda block: get(block) is _NOTHING

        def evaluate(block: bytes) -> bool | None:
            value = get(block)
            return value is not None and find(value, text) is not is_negated

        return evaluate

    _MAKERS: ClassVar[dict[type, Callable[[Any, Any], Evaluate]]] = {
        Chain: _chain, Not: _not, Cast: _cast, Equal: _equal, Order: _order, In: _in, Search: _search,
    }  # fmt: skip
