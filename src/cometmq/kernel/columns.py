"""The sends of a turn as columns: for each a row of numbers and places, and no object of it.

    bytes of a connection -> `take_sends` -> rows -> `column_records`: records, queue entries, answers, keys

A row names bytes that lie elsewhere: the body in what was read, the properties in the batch's text, where they stand
without the escapes of JSON. What is unusual in any way is not taken: the careful way looks at it, and at what the
same connection sent behind it (docs/design/0046-columns.md). Compiled: `_columns`, `_taking`.

Next: cometmq.kernel.column_records
"""

import re
import struct
from array import array
from typing import Any, Generic

from cometmq.kernel.layouts import FRAME_HEAD, HEADER_SIZE_MAX, PROPERTIES_SIZE_MAX
from cometmq.kernel.reference import java_hash_many
from cometmq.kernel.rows import Arrival, End, Lane, Pending, Put, PutResult
from cometmq.model.codes import Language, RequestCode
from cometmq.model.flags import ONEWAY, RESPONSE

_SEND_V2 = int(RequestCode.SEND_MESSAGE_V2)
LANGUAGES = tuple(language.name.encode() for language in Language)
_JSON, _BINARY = 0, 1
_HEAD = FRAME_HEAD.struct

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

# Properties, or ends of their names, that only the careful way knows how to treat.
_SPECIAL_ENDS = (b"DELAY", b"TRAN_MSG", b"POP_CK")
_SPECIAL_MARKS = (b"\0", b"TIMER_D", b"INNER_MULTI")
_KEY_NAME, _TAGS_NAME, _WAIT_NAME = b"UNIQ_KEY", b"TAGS", b"WAIT"

# opaque, flag, fields by their letters: of a send's header.
_Header = tuple[int, int, dict[bytes, bytes]]


class SendBatch(Generic[End]):
    """Sends that are stored together.

    Attributes:
        count: how many there are.
        packed: how many of them have a place in the log.
        suffix: what stands behind the properties of each in its record.
        lanes: where each goes.
        numbers: of each, twelve: where its body begins and ends, and its properties, and in those the unique key; its
            tags code, born time in ms, flag, reconsume times, opaque, and whether it is oneway.
        origins: of each, which of `buffers` and `hosts` are its.
        places: of each that is packed, its queue offset, physical offset and size.
    """

    WIDTH = 12

    def __init__(self, suffix: bytes) -> None:
        """There are none; `suffix` is what the broker adds to each message's properties."""
        self.count = self.packed = 0
        self.suffix = suffix
        self.lanes: list[Lane[End]] = []
        self.numbers = array("q")
        self.origins = array("q")
        self.places = array("q")
        self.buffers: list[bytes] = []
        self.hosts: list[bytes] = []
        self.text = bytearray()

    def __len__(self) -> int:
        return self.count

    def row(self, index: int) -> "array[int]":
        """The numbers of a send."""
        return self.numbers[index * self.WIDTH : (index + 1) * self.WIDTH]

    def body(self, index: int) -> memoryview:
        """The body of a send, where it was read."""
        start, end = self.numbers[index * self.WIDTH : index * self.WIDTH + 2]
        return memoryview(self.buffers[self.origins[index]])[start:end]

    def host(self, index: int) -> bytes:
        """Where a send comes from, as records say it."""
        return self.hosts[self.origins[index]]

    def block(self, index: int) -> bytes:
        """The properties of a send as its record has them."""
        return self._own(index) + self.suffix

    def _own(self, index: int) -> bytes:
        start, end = self.numbers[index * self.WIDTH + 2 : index * self.WIDTH + 4]
        return bytes(self.text[start:end])

    def puts(self) -> list[Put[End]]:
        """The same as puts, an object for each."""
        puts: list[Put[End]] = []
        for index, lane in enumerate(self.lanes):
            *_, tags_code, born_ms, flag, tried, _, _ = self.row(index)
            puts.append((
                lane[0], lane[1], bytes(self.body(index)), self.block(index), tags_code,
                flag, 0, born_ms, self.host(index), tried, 0, 0,
            ))  # fmt: skip
        return puts

    def pending(self, first: int, last: int) -> list[Pending]:
        """What is needed to answer some of them, an object for each."""
        pending: list[Pending] = []
        for index in range(max(first, 0), min(last, self.count)):
            _, _, _, _, key_at, key_end, *_, opaque, is_oneway = self.row(index)
            key = str(self.text[key_at:key_end], "ascii")
            pending.append((opaque, None if is_oneway else self.lanes[index][2], key))
        return pending

    def results(self, first: int, last: int) -> list[PutResult]:
        """Where some of those that are packed lie, an object for each."""
        return [self._place(index) for index in range(max(first, 0), min(last, self.packed))]

    def _place(self, index: int) -> PutResult:
        queue_offset, physical_offset, size = self.places[index * 3 : index * 3 + 3]
        return queue_offset, physical_offset, size

    def arrivals(self) -> list[Arrival[End]]:
        """The queue entries of those that are packed, an object for each."""
        return [
            (self.lanes[index][0], *self._place(index), self.numbers[index * self.WIDTH + 6])
            for index in range(self.packed)
        ]

    def keyed(self) -> list[tuple[bytes, bytes, PutResult]]:
        """Of those that are packed what their keys stand in: the topic block, their own properties; and the place."""
        return [
            (self.lanes[index][1], self._own(index), self._place(index))
            for index in range(self.packed)
        ]

    @property
    def start(self) -> int:
        """Physical offset of the first; 0 where none is packed."""
        return self.places[1] if self.packed else 0

    def end_of(self, last: int) -> int:
        """Physical offset behind the first `last` of them.

        Raises:
            IndexError: they are not packed.
        """
        if not 0 < last <= self.packed:
            raise IndexError("a send that is packed")
        _, physical_offset, size = self._place(last - 1)
        return physical_offset + size


def take_sends(  # noqa: PLR0913, PLR0917  As `plain_sends`.
    batch: SendBatch[End],
    data: bytes,
    position: int,
    count_max: int,
    host: bytes,
    straight: dict[str, dict[str, Lane[End]]],
    body_size_max: int,
    frame_size_max: int,
    header_size_max: int,
) -> int:
    """Take sends from a connection's bytes, up to the first frame that is another or in any way unusual.

    Args:
        batch: gets a row of each.
        data: what was read; it is kept, for the bodies stay in it.
        position: where the first frame begins.
        count_max: most sends.
        host: the client, as records hold it.
        straight: topic -> queue id as text -> lane.
        body_size_max: bytes.
        frame_size_max: bytes of a whole frame.
        header_size_max: bytes.

    Returns:
        The position behind the last that was taken.
    """
    before, size = batch.count, len(data)
    while size - position >= FRAME_HEAD.size and batch.count - before < count_max:
        length, head = _HEAD.unpack_from(data, position)
        start, header_size = position + FRAME_HEAD.size, head & HEADER_SIZE_MAX
        end = position + 4 + length
        if not 4 <= length <= frame_size_max - 4 or end > size:
            break
        if header_size > min(header_size_max, length - 4):
            break
        body_at = start + header_size
        header = _read_header(head >> 24, data[start:body_at])
        if header is None or not 0 < end - body_at <= body_size_max:
            break
        if not _add(batch, header, (body_at, end), straight):
            break
        position = end
    if batch.count > before:
        batch.hosts.append(host)
        batch.buffers.append(data)
    return position


def _add(
    batch: SendBatch[End],
    header: _Header,
    body: tuple[int, int],
    straight: dict[str, dict[str, Lane[End]]],
) -> bool:
    """Add a send as a row; False where there is anything special about it."""
    opaque, flag, fields = header
    if flag & RESPONSE or fields.get(b"f") != b"0":
        return False
    if fields.get(b"m", b"false") != b"false":
        return False  # A batch, however it says so.
    try:
        lane = straight[fields[b"b"].decode()][fields[b"e"].decode()]
        born_ms = _number_of(fields[b"g"], 62)
        user_flag, tried = _number_of(fields[b"h"], 31), _number_of(fields.get(b"j", b"0"), 31)
        block = fields[b"i"]
        block.decode()
    except (LookupError, ValueError):
        return False
    found = look(block)
    if found is None or len(block) + len(batch.suffix) > PROPERTIES_SIZE_MAX:
        return False
    (key_at, key_end), tags_code = found
    at = len(batch.text)
    batch.text += block
    batch.numbers.extend((
        *body, at, at + len(block), at + key_at, at + key_end,
        tags_code, born_ms, user_flag, tried, opaque, flag & ONEWAY,
    ))  # fmt: skip
    batch.origins.append(len(batch.hosts))
    batch.lanes.append(lane)
    batch.count += 1
    return True


def look(block: bytes) -> tuple[tuple[int, int], int] | None:
    """Where the unique key of a property block begins and ends, and its tags code; None where it may be special."""
    if block[-1:] != b"\2" or any(mark in block for mark in _SPECIAL_MARKS):
        return None
    key, tag, at = (0, 0), b"", 0
    for piece in block[:-1].split(b"\2"):
        name, _, value = piece.partition(b"\1")
        if not name or not value or b"\1" in value or _is_special(name, value):
            return None
        if name.endswith(_KEY_NAME):
            if name != _KEY_NAME or key[1] or not value.isalnum():
                return None
            key = at + len(name) + 1, at + len(piece)
        elif name.endswith(_TAGS_NAME):
            if name != _TAGS_NAME or tag:
                return None
            tag = value
        at += len(piece) + 1
    return (key, java_hash_many([tag])[0] if tag else 0) if key[1] else None


def _is_special(name: bytes, value: bytes) -> bool:
    no_wait = name.endswith(_WAIT_NAME) and value.startswith(b"f")
    return no_wait or name.endswith(_SPECIAL_ENDS)


def _number_of(text: bytes, bits: int) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError("no number, or written as nobody does")
    number = int(text)
    if not -(1 << bits) <= number < 1 << bits:
        raise ValueError("out of its range")
    return number


def _read_header(kind: int, header: bytes) -> _Header | None:
    """The header of a send; None for any other, and one that is not written as official clients write it."""
    try:
        if kind == _JSON:
            return _read_json(header)
        return _read_binary(header) if kind == _BINARY else None
    except (_UnusualError, struct.error):
        return None


class _UnusualError(Exception):
    """A header that is not written as official clients write it."""


def _read_json(header: bytes) -> _Header:
    at = _expect(header, 0, b"{")
    found: dict[bytes, Any] = {}
    while True:
        name, at = _matched(_NAME, header, at)
        if name in found:
            raise _UnusualError
        if name == b"extFields":
            found[name], at = _read_fields(header, at)
        elif name in {b"code", b"flag", b"opaque", b"version"}:
            text, at = _matched(_NUMBER, header, at, 0)
            found[name] = int(text)
            if not -(1 << 31) <= found[name] < 1 << 31:
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
    if found[b"code"] != _SEND_V2 or found[b"language"] not in LANGUAGES:
        raise _UnusualError
    return found[b"opaque"], found[b"flag"], found[b"extFields"]


def _read_fields(header: bytes, at: int) -> tuple[dict[bytes, bytes], int]:
    """The fields that have a letter; only the properties may have escapes, and characters beyond ASCII."""
    at = _expect(header, at, b"{")
    fields: dict[bytes, bytes] = {}
    while True:
        name, at = _matched(_NAME, header, at)
        value, at = _matched(_TEXT, header, at)
        if name == b"i":
            value = _unescaped(value)
        elif b"\\" in value or not value.isascii():
            raise _UnusualError
        _keep_field(fields, name, value)
        if header[at : at + 1] == b"}":
            return fields, at + 1
        at = _expect(header, at, b",")


def _keep_field(fields: dict[bytes, bytes], name: bytes, value: bytes) -> None:
    if len(name) == 1 and name.islower():
        if name in fields:
            raise _UnusualError
        fields[name] = value


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


def _read_binary(header: bytes) -> _Header:
    code, _, _, opaque, flag, remark_size, size = _BINARY_HEAD.unpack_from(header)
    at, end = _BINARY_HEAD.size, _BINARY_HEAD.size + size
    if code != _SEND_V2 or remark_size or size < 0 or end > len(header):
        raise _UnusualError
    fields: dict[bytes, bytes] = {}
    header = header[:end]
    while at < end:
        name, at = _piece(header, at + 2, _NAME_SIZE.unpack_from(header, at)[0])
        value, at = _piece(header, at + 4, _VALUE_SIZE.unpack_from(header, at)[0])
        if not name.isascii() or (name != b"i" and not value.isascii()):
            raise _UnusualError
        _keep_field(fields, name, value)
    return opaque, flag, fields


def _piece(header: bytes, start: int, size: int) -> tuple[bytes, int]:
    if not 0 <= size <= len(header) - start:
        raise _UnusualError
    return header[start : start + size], start + size
