"""The header of a send as it stands in its bytes, in plain Python: JSON as official clients write it, and the binary form.

Fields are known by their letters (SEND_MESSAGE_V2, SEND_BATCH_MESSAGE); SEND_MESSAGE writes the same ones as words. What is
not written as official clients write it is no header here: the careful way looks at it. Compiled: `_send_headers`.
"""

import re
import struct
from typing import Any, NamedTuple

from cometmq.model.codes import Language, RequestCode

SEND = int(RequestCode.SEND_MESSAGE)
SEND_V2 = int(RequestCode.SEND_MESSAGE_V2)
SEND_BATCH = int(RequestCode.SEND_BATCH_MESSAGE)
LANGUAGES = tuple(language.name.encode() for language in Language)
# The fields of SEND_MESSAGE in the order of their names, each with its letter in the others
# (SendMessageRequestHeader and SendMessageRequestHeaderV2 of RocketMQ 5.3.3).
WORDS = (
    (b"batch", b"m"),
    (b"bornTimestamp", b"g"),
    (b"defaultTopic", b"c"),
    (b"defaultTopicQueueNums", b"d"),
    (b"flag", b"h"),
    (b"maxReconsumeTimes", b"l"),
    (b"producerGroup", b"a"),
    (b"properties", b"i"),
    (b"queueId", b"e"),
    (b"reconsumeTimes", b"j"),
    (b"sysFlag", b"f"),
    (b"topic", b"b"),
    (b"unitMode", b"k"),
)
_CODES = (SEND, SEND_V2, SEND_BATCH)
_LETTERS = dict(WORDS)
_JSON, _BINARY = 0, 1
_PROPERTIES = b"i"

# A name, and a text as it stands in JSON.
_NAME = re.compile(rb'"([\x20\x21\x23-\x5b\x5d-\x7f]*)":')
_TEXT = re.compile(rb'"((?:[^"\\\x00-\x1f]|\\[^\x00-\x1f])*)"')
_NUMBER = re.compile(rb"0|-?[1-9][0-9]{0,17}")
_ESCAPE = re.compile(rb"\\(?:u00([0-9A-Fa-f]{2})|(.?))", re.DOTALL)
_SHORT_ESCAPES = {b'"': b'"', b"\\": b"\\", b"/": b"/", b"n": b"\n", b"t": b"\t", b"r": b"\r",
                  b"b": b"\b", b"f": b"\f"}  # fmt: skip
_ASCII_END = 128
# Of a binary header: code, language, version, opaque, flag, remark's size, fields' size (docs/format/remoting.md).
_BINARY_HEAD = struct.Struct(">hbhiiii")
_NAME_SIZE, _VALUE_SIZE = struct.Struct(">h"), struct.Struct(">i")

# Beside them who signs and how; any other name, or one of these twice, makes it strange to `signatures`.
ACCESS_KEY, SIGNATURE, STRANGE = b"AccessKey", b"Signature", b""


class Header(NamedTuple):
    """The header of a send, split into fields.

    Attributes:
        code: of the request: one of the three that send.
        opaque: its number.
        flag: of the request.
        fields: by their letters, and who signs and how.
    """

    code: int
    opaque: int
    flag: int
    fields: dict[bytes, bytes]

    def in_order(self) -> list[bytes]:
        """The values of the fields in the order of the names that they were sent with, without the signature."""
        names = {letter: word for word, letter in WORDS} if self.code == SEND else {}
        signed = self.fields.keys() - {SIGNATURE}
        return [
            self.fields[name] for name in sorted(signed, key=lambda name: names.get(name, name))
        ]


def read_header(kind: int, header: bytes) -> Header | None:
    """The header of a send; None for any other, and one that is not written as official clients write it."""
    try:
        if kind == _JSON:
            return _read_json(header)
        return _read_binary(header) if kind == _BINARY else None
    except (_UnusualError, struct.error):
        return None


class _UnusualError(Exception):
    """A header that is not written as official clients write it."""


def _read_json(header: bytes) -> Header:
    at = _expect(header, 0, b"{")
    found: dict[bytes, Any] = {}
    while True:
        name, at = _matched(_NAME, header, at)
        if name in found:
            raise _UnusualError
        if name == b"extFields":
            found[name], at = _read_fields(header, at, found.get(b"code", 0))
        elif name in {b"code", b"flag", b"opaque", b"version"}:
            text, at = _matched(_NUMBER, header, at, 0)
            found[name] = int(text)
            is_late = found[name] == SEND and name == b"code" and b"extFields" in found
            if is_late or not -(1 << 31) <= found[name] < 1 << 31:
                raise _UnusualError
        else:
            found[name], at = _matched(_TEXT, header, at)
        if header[at : at + 1] == b"}":
            break
        at = _expect(header, at, b",")
    kind = found.pop(b"serializeTypeCurrentRPC", b"JSON")
    is_whole = found.keys() == {
        b"code", b"flag", b"opaque", b"version", b"extFields", b"language"
    }  # fmt: skip
    if at + 1 != len(header) or not is_whole or kind != b"JSON":
        raise _UnusualError
    if found[b"code"] not in _CODES or found[b"language"] not in LANGUAGES:
        raise _UnusualError
    return Header(found[b"code"], found[b"opaque"], found[b"flag"], found[b"extFields"])


def _read_fields(header: bytes, at: int, code: int) -> tuple[dict[bytes, bytes], int]:
    """The fields that have a letter; only the properties may have escapes, and characters beyond ASCII."""
    at = _expect(header, at, b"{")
    fields: dict[bytes, bytes] = {}
    while True:
        name, at = _matched(_NAME, header, at)
        value, at = _matched(_TEXT, header, at)
        name = _letter_of(name, code)
        if name == _PROPERTIES:
            value = _unescaped(value)
        elif b"\\" in value or not value.isascii():
            raise _UnusualError
        _keep_field(fields, name, value)
        if header[at : at + 1] == b"}":
            return fields, at + 1
        at = _expect(header, at, b",")


def _letter_of(name: bytes, code: int) -> bytes:
    """The letter that a field has; a name that has none stays, and is no letter."""
    if code != SEND:
        return name
    return _LETTERS.get(name, name if len(name) > 1 else STRANGE)


def _keep_field(fields: dict[bytes, bytes], name: bytes, value: bytes) -> None:
    if len(name) == 1 and name.islower():
        if name in fields:
            raise _UnusualError
        fields[name] = value
    elif name in (ACCESS_KEY, SIGNATURE) and name not in fields:
        fields[name] = value
    else:
        fields[STRANGE] = b""


def _matched(
    pattern: "re.Pattern[bytes]", header: bytes, at: int, group: int = 1
) -> tuple[bytes, int]:
    found = pattern.match(header, at)
    if found is None:
        raise _UnusualError
    return found[group], found.end()


def _expect(header: bytes, at: int, byte: bytes) -> int:
    if header[at : at + 1] != byte:
        raise _UnusualError
    return at + 1


def _unescaped(text: bytes) -> bytes:
    if b"\\" not in text:
        return text
    return _ESCAPE.sub(_escaped_byte, text)


def _escaped_byte(found: "re.Match[bytes]") -> bytes:
    if found[1] is not None:
        code = int(found[1], 16)
        if code < _ASCII_END:
            return bytes((code,))
    elif found[2] in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[found[2]]
    raise _UnusualError


def _read_binary(header: bytes) -> Header:
    code, _, _, opaque, flag, remark_size, size = _BINARY_HEAD.unpack_from(header)
    at, end = _BINARY_HEAD.size, _BINARY_HEAD.size + size
    if code not in _CODES or remark_size or size < 0 or end > len(header):
        raise _UnusualError
    fields: dict[bytes, bytes] = {}
    header = header[:end]
    while at < end:
        name, at = _piece(header, at + 2, _NAME_SIZE.unpack_from(header, at)[0])
        value, at = _piece(header, at + 4, _VALUE_SIZE.unpack_from(header, at)[0])
        if not name.isascii():
            raise _UnusualError
        name = _letter_of(name, code)
        if name != _PROPERTIES and not value.isascii():
            raise _UnusualError
        _keep_field(fields, name, value)
    return Header(code, opaque, flag, fields)


def _piece(header: bytes, start: int, size: int) -> tuple[bytes, int]:
    if not 0 <= size <= len(header) - start:
        raise _UnusualError
    return header[start : start + size], start + size
