"""Headers as official clients and brokers write them, for those who look at a frame before it is a command.

JSON of ASCII without a blank and without an escape, each name once, the values of its fields texts. Any other is read with care, as
a command. Compiled: `_scan.pxd`.
"""

import re

from cometmq.model.codes import Language

HEADER_SIZE_PLAIN = 4096  # Bytes; none of those who are asked here is as long.
LANGUAGES = tuple(language.name.encode() for language in Language)
# A field: name and value.
_FIELD = re.compile(r'"([^"\\\x00-\x1f]*)":"([^"\\\x00-\x1f]*)"')
_TEXT = rb'"[^"\\\x00-\x1f]*"'
# Of a header a number, the fields, or a text: name and value of the first two, the name of the last.
_PAIR = re.compile(
    rb'"(?:(code|flag|opaque|version)":(0|-?[1-9][0-9]{0,17})'
    rb'|(extFields)":(\{@:@(?:,@:@)*\})'
    rb'|(language|serializeTypeCurrentRPC)":@)'.replace(b"@", _TEXT)
)


def plain_head(header: bytes) -> tuple[int, int, int, dict[str, str]] | None:
    """Code, flag, opaque and fields of such a header; None of any other."""
    numbers: dict[bytes, int] = {}
    fields: dict[str, str] | None = None
    position, seen = 1, set()
    while header.isascii() and (pair := _PAIR.match(header, position)):
        name, number, written = pair[1] or pair[3] or pair[5], pair[2], pair[4]
        if name in seen:
            return None
        seen.add(name)
        if number is not None:
            numbers[name] = int(number)
            if not -0x80000000 <= numbers[name] <= 0x7FFFFFFF:
                return None
        elif written is not None:
            fields = dict(_FIELD.findall(written.decode()))
        position = pair.end() + 1
        if position == len(header):
            break
        if header[position - 1 : position] != b",":
            return None
    is_whole = position == len(header) and header[:1] == b"{" and header[-1:] == b"}"
    if not is_whole or fields is None or not numbers.keys() >= {b"code", b"flag", b"opaque"}:
        return None
    return numbers[b"code"], numbers[b"flag"], numbers[b"opaque"], fields
