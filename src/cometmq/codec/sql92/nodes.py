"""The nodes of an SQL92 expression; the type of every operand is known before evaluation.

A property is a string or missing, a constant has its own type, a negation has no value, and everything else is a truth
value that may be unknown. Follows the classes in org.apache.rocketmq.filter.expression (RocketMQ 5.3.3).
"""

from enum import Enum
from typing import Literal

from cometmq.model.frozen import dataclass


class Kind(Enum):
    """The type of an SQL92 operand: STRING, INTEGER, LONG, DOUBLE, BOOLEAN or NULL; the values are Java's names."""

    STRING = "String"
    INTEGER = "Integer"
    LONG = "Long"
    DOUBLE = "Double"
    BOOLEAN = "Boolean"
    NULL = "null"


NUMBERS = frozenset((Kind.INTEGER, Kind.LONG, Kind.DOUBLE))


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal in an SQL92 expression.

    Attributes:
        kind: Its type.
        value: Its value; None for NULL.
        is_literal: False for a number after a minus sign, which Java does not check as a constant.
    """

    kind: Kind
    value: str | int | float | bool | None
    is_literal: bool = True


@dataclass(frozen=True, slots=True)
class Property:
    """A property of the message as an operand of an SQL92 expression."""

    name: str


@dataclass(frozen=True, slots=True)
class Negation:
    """A minus sign before anything but a number: it has no value, but its operand is evaluated."""

    operand: "Operand"


@dataclass(frozen=True, slots=True)
class Chain:
    """Conditions joined by AND or by OR, evaluated from left to right."""

    word: Literal["AND", "OR"]
    terms: "tuple[Truth, ...]"


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of a condition; unknown stays unknown."""

    term: "Truth"


@dataclass(frozen=True, slots=True)
class Cast:
    """A property used as a condition; never true, because a string is no truth value."""

    operand: Property


@dataclass(frozen=True, slots=True)
class Equal:
    """A comparison left = right; with NULL on the right it means IS NULL."""

    left: "Operand"
    right: "Operand"


@dataclass(frozen=True, slots=True)
class Order:
    """A comparison with one of the signs <, <=, > and >=."""

    sign: str
    left: "Operand"
    right: "Operand"


@dataclass(frozen=True, slots=True)
class In:
    """A test whether a property equals one of some texts, or none of them; unknown if it is missing."""

    operand: Property
    texts: frozenset[str]
    is_negated: bool


@dataclass(frozen=True, slots=True)
class Search:
    """A test for a text in an operand, CONTAINS, STARTSWITH or ENDSWITH.

    False, even with NOT, if the operand has no value or is no string, or if the text is empty.
    """

    word: str
    operand: "Operand"
    text: str
    is_negated: bool


Test = Chain | Not | Cast | Equal | Order | In | Search
Truth = Test | Constant  # A constant here is TRUE, FALSE or NULL.
Operand = Test | Constant | Property | Negation
