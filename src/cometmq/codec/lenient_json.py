"""Parser for fastjson syntax, called by `cometmq.codec.fastjson` for texts that are no strict JSON.

Keys may be numbers (`{0:12}`, kept as numbers), bare words, or whole objects and arrays (`{{"queueId":0}:12}`, kept as
`FrozenObject` and tuples). Strings may have single quotes; commas may be missing, doubled or trailing; comments may
stand between tokens. The values `NaN` and `undefined` become None. Source: JSONLexerBase and DefaultJSONParser of
fastjson 1.2.83, with its default features.
"""

import re
from collections.abc import Iterator, Mapping

from cometmq.model.errors import CodecError
from cometmq.model.text import in_quotes

NESTING_MAX = 32  # RocketMQ's deepest body (a consumer's running state) has 7 levels.

# Of an integer; fewer than Python refuses to parse, or to convert to a float.
_DIGITS_MAX = 300
# Possessive quantifiers (++, *+) reject a malformed text in one pass, without backtracking.
_BETWEEN = re.compile(r"(?:[\s,]++|/\*[\s\S]*?\*/|//[^\n]*+)*+")
_SPACE = re.compile(r"(?:\s++|/\*[\s\S]*?\*/|//[^\n]*+)*+")
_STRING = re.compile(
    r'"([^"\\]*+(?:\\[\s\S][^"\\]*+)*+)"' + "|" + r"'([^'\\]*+(?:\\[\s\S][^'\\]*+)*+)'"
)
_NUMBER = re.compile(r"[-+]?\d++(\.\d*+)?([eE][-+]?\d++)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_$][\w$]*+", re.ASCII)
# Offset tables (`{0:12,1:3}`) are parsed in one step, because large config files consist of them.
_INT_MAP = re.compile(r"\{(D:-?D(?:,D:-?D)*+)\s*+\}".replace("D", rf"\d{{1,{_DIGITS_MAX}}}+"))
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([\s\S]))")
_ESCAPED = {
    "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "F": "\f",
    '"': '"', "'": "'", "/": "/", "\\": "\\",
    **{str(digit): chr(digit) for digit in range(8)},
}  # fmt: skip
_WORDS = {"true": True, "false": False, "null": None, "NaN": None, "undefined": None}


class FrozenObject(Mapping[str, object]):
    """An immutable JSON object that can be a key: a `Mapping`, equal only to a `FrozenObject` with the same content.

    Args:
        content: Names and values; nested objects and arrays are frozen, too.
    """

    __slots__ = ("_content", "_hash")

    def __init__(self, content: Mapping[str, object]) -> None:
        self._content = {name: freeze(value) for name, value in content.items()}
        self._hash = hash(frozenset(self._content.items()))

    def __getitem__(self, name: str) -> object:
        return self._content[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FrozenObject):
            return self._content == other._content
        return NotImplemented

    def __repr__(self) -> str:
        return f"FrozenObject({self._content!r})"


def freeze(value: object) -> object:
    """Return a hashable form of a JSON value: objects as `FrozenObject`, arrays as tuples."""
    if isinstance(value, Mapping) and not isinstance(value, FrozenObject):
        return FrozenObject(value)
    if isinstance(value, list):
        return tuple(freeze(item) for item in value)
    return value


def parse(text: str) -> object:
    """Parse a JSON or fastjson text; return None for an empty one, as fastjson does.

    Raises:
        CodecError: The text is malformed or nested deeper than 32 levels.
    """
    reader = _JsonReader(text)
    start = reader.skip(_BETWEEN, 0)
    if start == len(text):
        return None
    value, position = reader.value(start, 1)
    if reader.skip(_BETWEEN, position) != len(text):
        raise reader.error(position, "more text after the end of the value")
    return value


class _JsonReader:
    """Recursive descent parser for one text; `depth` limits the recursion.

    Most methods that parse take a position, and return the parsed value and the position after it.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def error(self, position: int, what: str) -> CodecError:
        """Return (not raise) the error for a position, quoting a few characters of the text."""
        return CodecError(
            f"JSON: {what} at character {position}: {in_quotes(self._text[position : position + 20])}"
        )

    def skip(self, gap: re.Pattern[str], position: int) -> int:
        """Return the position after a gap, which may be empty."""
        match = gap.match(self._text, position)
        return match.end() if match else position

    def value(self, position: int, depth: int) -> tuple[object, int]:
        """Parse the value at a position; return it and the position after it. Raises CodecError if none fits there."""
        match self._text[position : position + 1]:
            case "{":
                return self._object(position, depth)
            case "[":
                return self._array(position, depth)
            case '"' | "'":
                return self._string(position)
            case first if first and first in "-+0123456789":
                return self._number(position)
        word = _WORD.match(self._text, position)
        if word is None or word[0] not in _WORDS:
            raise self.error(position, "no value")
        return _WORDS[word[0]], word.end()

    def _object(self, position: int, depth: int) -> tuple[dict[object, object], int]:
        self._check_depth(position, depth)
        if offsets := _INT_MAP.match(self._text, position):
            return self._int_map(offsets), offsets.end()
        content: dict[object, object] = {}
        position = self.skip(_BETWEEN, position + 1)
        while not self._text.startswith("}", position):
            key, position = self._key(position, depth + 1)
            position = self.skip(_SPACE, position)
            if not self._text.startswith(":", position):
                raise self.error(position, "no ':' after a key")
            position = self.skip(_SPACE, position + 1)
            content[key], position = self.value(position, depth + 1)
            position = self.skip(_BETWEEN, position)
        return content, position + 1

    def _int_map(self, found: re.Match[str]) -> dict[object, object]:
        pairs = (pair.split(":") for pair in found[1].split(","))
        return {int(key): int(value) for key, value in pairs}

    def _key(self, position: int, depth: int) -> tuple[object, int]:
        word = _WORD.match(self._text, position)
        if word is not None:
            return word[0], word.end()
        key, position = self.value(position, depth)
        return freeze(key), position

    def _array(self, position: int, depth: int) -> tuple[list[object], int]:
        self._check_depth(position, depth)
        items: list[object] = []
        position = self.skip(_BETWEEN, position + 1)
        while not self._text.startswith("]", position):
            item, position = self.value(position, depth + 1)
            items.append(item)
            position = self.skip(_BETWEEN, position)
        return items, position + 1

    def _check_depth(self, position: int, depth: int) -> None:
        if depth > NESTING_MAX:
            raise self.error(position, f"more than {NESTING_MAX} levels")

    def _string(self, position: int) -> tuple[str, int]:
        found = _STRING.match(self._text, position)
        if found is None:
            raise self.error(position, "an unterminated string")
        content: str = found[1] if found[1] is not None else found[2]
        if "\\" in content:
            content = _ESCAPE.sub(lambda escape: self._unescape(escape, position), content)
            # \ud83d\ude00 is one character, written as two UTF-16 units.
            content = content.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return content, found.end()

    def _unescape(self, escape: re.Match[str], position: int) -> str:
        code = escape[1] or escape[2]
        if code:
            return chr(int(code, 16))
        if escape[3] not in _ESCAPED:
            raise self.error(position, f"an unknown escape {in_quotes(escape[0])} in a string")
        return _ESCAPED[escape[3]]

    def _number(self, position: int) -> tuple[int | float, int]:
        found = _NUMBER.match(self._text, position)
        if found is None:
            raise self.error(position, "no number")
        is_float = found[1] is not None or found[2] is not None
        if not is_float and len(found[0]) > _DIGITS_MAX:
            raise self.error(position, "a number with too many digits")
        return (float(found[0]) if is_float else int(found[0])), found.end()
