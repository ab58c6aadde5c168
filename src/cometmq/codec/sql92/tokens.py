"""The tokens of an SQL92 expression, with their positions.

Follows the token section of SelectorParser.jj (RocketMQ 5.3.3): keywords in any case, `--` comments that a line
break ends, `/* */` comments, strings in single quotes with '' for a quote. Names are ASCII.
"""

import re
from typing import NamedTuple

from cometmq.model.errors import ExpressionError
from cometmq.model.text import in_quotes

WORDS_MAX = 4_096  # Limits IN, which compiles 2,000 texts in 10 ms; Java has no limit.

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
    """A token of an SQL92 expression.

    Attributes:
        kind: float, integer, string, name, sign, end, or the keyword in capitals.
        text: Text as written; for a string, its content.
        column: Position of its first character in the whole expression, from 1.
    """

    kind: str
    text: str
    column: int


def tokens_of(expression: str) -> list[Token]:
    """Split an SQL92 expression into tokens, followed by an `end` token.

    Raises:
        ExpressionError: An unclosed string or `/*` comment, an unknown sign, or too many tokens.
    """
    tokens: list[Token] = []
    add, match_at = tokens.append, _TOKEN.match
    position, end = 0, len(expression)
    while position < end:
        match = match_at(expression, position)
        if match is None:
            raise ExpressionError(
                _what_is_wrong(expression, position), expression, position + 1
            )
        kind, text = match.lastgroup, match[0]
        if kind == "word":
            keyword = text.upper()
            add(Token(keyword if keyword in KEYWORDS else "name", text, position + 1))
        elif kind == "string":
            add(Token(kind, text[1:-1].replace("''", "'"), position + 1))
        elif kind is not None and kind != "blank":
            add(Token(kind, text, position + 1))
        if len(tokens) > WORDS_MAX:
            raise ExpressionError(
                f"the expression has more than {WORDS_MAX} names, values and signs",
                expression, position + 1,
            )  # fmt: skip
        position = match.end()
    add(Token("end", "", end + 1))
    return tokens


def _what_is_wrong(expression: str, position: int) -> str:
    sign = expression[position]
    if sign == "'":
        return "a string is not closed; end it with '"
    if expression.startswith("/*", position):
        return "a comment is not closed; end it with */"
    if sign == '"':
        return "a string must be in single quotes: 'text'"
    if sign == "!":
        return "not equal is written <>"
    return f"unexpected character {in_quotes(sign)}"
