"""The words of an expression, each with the column where it stands.

Follows the token section of SelectorParser.jj (RocketMQ 5.3.3): keywords in any case, `--` comments
up to a line's end, `/* */` comments, strings in single quotes with '' for a quote. Names are ASCII.

Next: cometmq.codec.sql92.parser
"""

import re
from typing import NamedTuple

from cometmq.model.errors import ExpressionError

KEYWORDS = frozenset(
    "NOT AND OR BETWEEN IN TRUE FALSE NULL IS CONTAINS STARTSWITH ENDSWITH".split()  # noqa: SIM905
)

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\n\r\f]+|--[^\n\r]*[\n\r]|/\*[^*]*\*(?:\*|[^*/][^*]*\*)*/)
    |(?P<float>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
    |(?P<integer>0|[1-9][0-9]*[lL]?)
    |(?P<string>'(?:''|[^'])*')
    |(?P<word>[a-zA-Z_$][a-zA-Z0-9_$]*)
    |(?P<sign><>|<=|>=|[=<>(),+-])
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    """A word.

    Attributes:
        kind: float, integer, string, name, sign, end, or the keyword itself in capitals.
        text: as it was written; of a string what it means.
        column: where it begins, from 1.
    """

    kind: str
    text: str
    column: int


def tokens_of(expression: str) -> list[Token]:
    """All words, and an `end` behind them.

    Raises:
        ExpressionError: something is no word: an unclosed string or comment, an unknown sign.
    """
    tokens = []
    position, end = 0, len(expression)
    while position < end:
        match = _TOKEN.match(expression, position)
        if match is None:
            raise ExpressionError(
                _what_is_wrong(expression, position), expression, position + 1
            )
        kind, text = str(match.lastgroup), match.group()
        if kind == "string":
            tokens.append(Token(kind, text[1:-1].replace("''", "'"), position + 1))
        elif kind == "word":
            keyword = text.upper()
            tokens.append(Token(keyword if keyword in KEYWORDS else "name", text, position + 1))
        elif kind != "blank":
            tokens.append(Token(kind, text, position + 1))
        position = match.end()
    tokens.append(Token("end", "", end + 1))
    return tokens


def _what_is_wrong(expression: str, position: int) -> str:
    sign = expression[position]
    if sign == "'":
        return "a string is not closed; end it with '"
    if expression.startswith("/*", position):
        return "a comment is not closed; end it with */"
    if sign == '"':
        return "a string stands in single quotes: 'text'"
    if sign == "!":
        return "not equal is written <>"
    return f"{sign!r} means nothing here"
