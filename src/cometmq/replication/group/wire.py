"""Frames between members of a group.

| field | bytes |
| --- | --- |
| size of the header | 4 |
| size of the content | 4 |
| header: a JSON object with the field `type` | |
| content: of an `append` the bytes of the log, otherwise empty | |

Numbers are big-endian. The member that accepts a connection sends a `challenge`, the one that connected a `hello`, and the
first a `welcome`, or a `refusal` before it closes the connection. Then the one that connected sends messages
(`replication.group.messages`), and a `ping` when it has none; each `ping` is answered by a `pong`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from itertools import pairwise
from struct import Struct
from typing import Any

import orjson

from cometmq.codec.bodies.json_object import JsonObject
from cometmq.model.errors import CodecError
from cometmq.model.text import as_given
from cometmq.replication.group.history import Row
from cometmq.replication.group.messages import (
    MEMBER_ID_SIZE_MAX,
    VOTERS_MAX,
    Append,
    AppendAnswer,
    MemberPlace,
    Membership,
    Message,
    Restart,
    TakeOver,
    VoteAnswer,
    VoteRequest,
    split_place,
)

HEAD = Struct(">II")
# A header has at most some thousands of terms.
HEADER_SIZE_MAX = 256 << 10
# The longest record, and before it a blank end of a file that is a little shorter.
CONTENT_SIZE_MAX = 36 << 20
# Frames before the `welcome` have names, numbers and a proof.
GREETING_SIZE_MAX = 4 << 10
VERSION = 1

Content = bytes | bytearray | memoryview


class GroupFrame:
    """A received frame: its type, its header, its content, and the size of both in bytes."""

    __slots__ = ("content", "header", "size", "type")

    def __init__(self, header: Content, content: Content) -> None:
        """Decode the header; raise CodecError if it is not a JSON object with a type."""
        try:
            self.header = JsonObject(orjson.loads(header), "header")
        except ValueError as error:
            raise CodecError(f"the header of a frame is no JSON: {error}") from None
        self.type = self.header.text("type")
        self.content = content
        self.size = len(header) + len(content)


class GroupFrames:
    """The frames in the bytes that a peer has sent.

    Attributes:
        is_greeted: Whether frames may be as large as messages; if not, at most 4 KiB of header and no content.
    """

    def __init__(self) -> None:
        self.is_greeted = False
        # The sizes, the header or the content of a frame, and how many of these bytes were received.
        self._part = bytearray(HEAD.size)
        self._filled = 0
        self._content_size: int | None = None  # Once it was received,
        self._header: bytearray | None = None  # and the same for the header.

    def received(self, data: bytes) -> Iterator[GroupFrame]:
        """Yield the frames that `data` completes; raise CodecError if one is too large or cannot be decoded."""
        rest = memoryview(data)
        while rest:
            begin, end = self._filled, min(self._filled + len(rest), len(self._part))
            self._part[begin:end] = rest[: end - begin]
            self._filled, rest = end, rest[end - begin :]
            while self._filled == len(self._part):
                frame = self._next()
                if frame is not None:
                    yield frame

    def _next(self) -> GroupFrame | None:
        """Begin with the next part of a frame, because this one is whole; return the frame if that was its content."""
        part, self._filled = self._part, 0
        if self._content_size is None:
            header_size, self._content_size = HEAD.unpack(part)
            self._check(header_size, self._content_size)
            self._part = bytearray(header_size)
            return None
        if self._header is None:
            self._header, self._part = part, bytearray(self._content_size)
            return None
        header, self._header, self._content_size = self._header, None, None
        self._part = bytearray(HEAD.size)
        return GroupFrame(header, part)

    def _check(self, header_size: int, content_size: int) -> None:
        header_max, content_max = GREETING_SIZE_MAX, 0
        if self.is_greeted:
            header_max, content_max = HEADER_SIZE_MAX, CONTENT_SIZE_MAX
        if header_size > header_max or content_size > content_max:
            raise CodecError(
                f"a frame has {header_size} + {content_size} bytes; {header_max} + {content_max} are allowed"
            )


def encode_frame(header: Mapping[str, Any], content: Content = b"") -> list[Content]:
    """Encode a frame with this header; return its bytes in one or two pieces, to be written in order."""
    return _frame(orjson.dumps(header), content)


def _frame(header: bytes, content: Content) -> list[Content]:
    head = HEAD.pack(len(header), len(content)) + header
    return [head, content] if content else [head]


def encode_message(message: Message, content: Content = b"") -> list[Content]:
    """Encode a message as a frame, in pieces as `encode_frame`; `content` has the bytes of the log for an `Append`."""
    header = {"type": _NAMES[type(message)], "message": message}
    return _frame(orjson.dumps(header, default=tuple), content)


def decode_message(frame: GroupFrame, sender: str) -> Message:
    """Return the message in a frame.

    Raises:
        CodecError: It is of an unknown type or another sender, is malformed, or contradicts itself.
    """
    kind = _KINDS.get(frame.type)
    if kind is None:
        raise CodecError(f"frames of the type {frame.type} are unknown")
    given = frame.header.member("message")
    if given.text("sender") != sender:
        raise CodecError(f"a message of {given.text('sender')} came from {sender}")
    values = [sender, *(read(given, name) for name, read in _FIELDS[kind])]
    if kind is Append:
        values.append(frame.content)
    message = kind(*values)
    if isinstance(message, Append):
        _check_part(message, len(frame.content))
    return message


def _offset(fields: JsonObject, key: str) -> int:
    value = fields.int64(key)
    if value < 0:
        raise CodecError(f"{key} must not be negative, as {value} is")
    return value


def _check_part(part: Append, size: int) -> None:
    begin, end = part.begin, part.end
    for rows in (part.terms, part.memberships):
        is_right = not rows or (rows[0].start == begin and rows[-1].start < end)
        if begin > end or not is_right or (begin < end and not part.terms):
            raise CodecError(f"the part from {begin} to {end} has terms of other offsets")
    if end - begin != size:
        raise CodecError(f"a part of {end - begin} bytes has {size}")


def _terms(of: JsonObject, key: str) -> tuple[Row[int], ...]:
    return _rows(of, key, _number)


def read_memberships(of: JsonObject, key: str) -> tuple[Row[Membership], ...]:
    """Return the memberships in a field, an array of [offset, membership]; raise CodecError if they are malformed."""
    return _rows(of, key, _membership)


def read_places(of: JsonObject, key: str) -> tuple[MemberPlace, ...]:
    """Return the places in a field, an array of [id, broker id, "host:port"]; none without it.

    Raises:
        CodecError: It is malformed, has an id twice, or more than nine members.
    """
    found = []
    for each in _pairs(of, key, len(MemberPlace._fields)):
        member, broker_id, address = each
        if not (isinstance(member, str) and isinstance(address, str)):
            raise CodecError(f"{key} must have ids and addresses, not {as_given(each, 80)}")
        try:
            split_place(member, address)
        except ValueError as error:
            raise CodecError(f"{key} has {as_given(each, 80)}: {error}") from None
        found.append(MemberPlace(member, _number(broker_id), address))
    if len(found) > VOTERS_MAX or len({each.member for each in found}) < len(found):
        raise CodecError(f"{key} must have at most {VOTERS_MAX} members, with different ids")
    return tuple(found)


def _pairs(of: JsonObject, key: str, size: int) -> list[list[Any]]:
    """Return the arrays, each of `size` values, in a field that may be missing; raise CodecError if malformed."""
    rows = of.raw().get(key) or []
    if not isinstance(rows, list) or not all(
        isinstance(each, list) and len(each) == size for each in rows
    ):
        raise CodecError(f"{key} must be an array of arrays of {size} values")
    return rows


def _rows(of: JsonObject, key: str, decode: Callable[[Any], Any]) -> tuple[Row[Any], ...]:
    found = tuple(
        Row(_number(start), decode(value)) for start, value in _pairs(of, key, len(Row._fields))
    )
    if any(a.start >= b.start for a, b in pairwise(found)):
        raise CodecError(f"the offsets of {key} must grow")
    return found


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise CodecError(
            f"an offset or term must be a number from 0 up to 2^63 - 1, not {as_given(value, 40)}"
        )
    return value


def _membership(value: object) -> Membership:
    fields = JsonObject(value, "membership")
    voters, learners = fields.texts("voters"), fields.texts("learners")
    if not voters:
        raise CodecError("a membership must have voters")
    everyone = voters + learners
    if len(everyone) > VOTERS_MAX or any(len(each) > MEMBER_ID_SIZE_MAX for each in everyone):
        raise CodecError(
            f"a membership has at most {VOTERS_MAX} members, with ids of {MEMBER_ID_SIZE_MAX} characters"
        )
    return Membership(voters, learners, read_places(fields, "places"))


_KINDS: Mapping[str, type[Message]] = {
    "voteRequest": VoteRequest,
    "voteAnswer": VoteAnswer,
    "append": Append,
    "restart": Restart,
    "appendAnswer": AppendAnswer,
    "takeOver": TakeOver,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
# Numbers are offsets, terms and times, and only the term before the log's first byte may be negative.
_READERS: Mapping[object, Callable[[JsonObject, str], Any]] = {
    int: _offset,
    bool: JsonObject.flag,
    "before": JsonObject.int64,
    "terms": _terms,
    "memberships": read_memberships,
}
# The fields in the header of a message, after `sender`, with their readers.
_FIELDS = {
    kind: [
        (each.name, _READERS.get(each.name) or _READERS[each.type])
        for each in fields(kind)
        if each.name not in ("sender", "content")
    ]
    for kind in _NAMES
}
