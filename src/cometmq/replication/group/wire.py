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
from dataclasses import replace
from itertools import pairwise
from struct import Struct
from typing import Any

import orjson

from cometmq.codec.bodies.json_object import JsonObject
from cometmq.model.errors import CodecError
from cometmq.model.text import as_given
from cometmq.replication.group.history import Row
from cometmq.replication.group.messages import (
    Append,
    AppendAnswer,
    Membership,
    Message,
    Restart,
    TakeOver,
    VoteAnswer,
    VoteRequest,
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

    def __init__(self, header: bytes, content: bytes) -> None:
        """Raise CodecError if the header is no JSON object with a type."""
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
        is_greeted: Whether frames may be as large as messages are; before, only as small as greetings.
    """

    def __init__(self) -> None:
        self.is_greeted = False
        self._held = bytearray()

    def received(self, data: bytes) -> Iterator[GroupFrame]:
        """Yield the frames that `data` completes; raise CodecError if one is too large or cannot be decoded."""
        held = self._held
        held += data
        start = 0
        try:
            while len(held) - start >= HEAD.size:
                header_size, content_size = HEAD.unpack_from(held, start)
                self._check(header_size, content_size)
                middle = start + HEAD.size + header_size
                end = middle + content_size
                if len(held) < end:
                    break
                with memoryview(held) as view:
                    header = bytes(view[start + HEAD.size : middle])
                    content = bytes(view[middle:end])
                frame = GroupFrame(header, content)
                start = end
                yield frame
        finally:
            del held[:start]

    def _check(self, header_size: int, content_size: int) -> None:
        header_max, content_max = GREETING_SIZE_MAX, 0
        if self.is_greeted:
            header_max, content_max = HEADER_SIZE_MAX, CONTENT_SIZE_MAX
        if header_size > header_max or content_size > content_max:
            raise CodecError(
                f"a frame has {header_size} + {content_size} bytes; {header_max} + {content_max} are allowed"
            )


def encode_frame(fields: Mapping[str, Any], content: Content = b"") -> list[Content]:
    """Return the parts of a frame with these fields of the header."""
    return _frame(orjson.dumps(fields), content)


def _frame(header: bytes, content: Content) -> list[Content]:
    head = HEAD.pack(len(header), len(content)) + header
    return [head, content] if content else [head]


def encode_message(message: Message, content: Content = b"") -> list[Content]:
    """Return the parts of the frame of a message; `content` are the bytes of an `Append`."""
    header = {"type": _NAMES[type(message)], "message": message}
    return _frame(orjson.dumps(header, default=tuple), content)


def decode_message(frame: GroupFrame, sender: str) -> Message:
    """Return the message in a frame.

    Raises:
        CodecError: It is of an unknown type, of another sender, or contradicts itself.
    """
    decode = _DECODERS.get(frame.type)
    if decode is None:
        raise CodecError(f"frames of the type {frame.type} are unknown")
    fields = frame.header.member("message")
    if fields.text("sender") != sender:
        raise CodecError(f"a message of {fields.text('sender')} came from {sender}")
    message = decode(fields, sender)
    if not isinstance(message, Append):
        return message
    if message.end - message.begin != len(frame.content):
        raise CodecError(
            f"a part of {message.end - message.begin} bytes has {len(frame.content)}"
        )
    return replace(message, content=frame.content)


def _offset(fields: JsonObject, key: str) -> int:
    value = fields.int64(key)
    if value < 0:
        raise CodecError(f"{key} must not be negative, as {value} is")
    return value


def _vote_request(of: JsonObject, sender: str) -> VoteRequest:
    return VoteRequest(
        sender, _offset(of, "term"), _offset(of, "last_term"), _offset(of, "end"),
        of.flag("is_pre"), of.flag("is_forced"),
    )  # fmt: skip


def _vote_answer(of: JsonObject, sender: str) -> VoteAnswer:
    return VoteAnswer(
        sender,
        _offset(of, "term"),
        of.flag("is_pre"),
        of.flag("is_granted"),
        of.flag("is_sure"),
    )


def _append(of: JsonObject, sender: str) -> Append:
    begin, end = _offset(of, "begin"), _offset(of, "end")
    terms = _rows(of, "terms", _term)
    memberships = _rows(of, "memberships", _membership)
    for rows in (terms, memberships):
        is_right = not rows or (rows[0].start == begin and rows[-1].start < end)
        if begin > end or not is_right or (begin < end and not terms):
            raise CodecError(f"the part from {begin} to {end} has terms of other offsets")
    return Append(
        sender, _offset(of, "term"), _offset(of, "stamp"), begin, end, of.int64("before"),
        _offset(of, "commit"), _offset(of, "seen_run"), terms, memberships,
    )  # fmt: skip


def _restart(of: JsonObject, sender: str) -> Restart:
    return Restart(
        sender, _offset(of, "term"), _offset(of, "stamp"), _offset(of, "begin"),
        _rows(of, "terms", _term), _rows(of, "memberships", _membership),
    )  # fmt: skip


def _append_answer(of: JsonObject, sender: str) -> AppendAnswer:
    return AppendAnswer(
        sender, _offset(of, "term"), _offset(of, "stamp"), of.flag("is_matching"),
        _offset(of, "matched"), _offset(of, "stable"), _offset(of, "run"), _offset(of, "end"),
        _rows(of, "terms", _term),
    )  # fmt: skip


def _take_over(of: JsonObject, sender: str) -> TakeOver:
    return TakeOver(sender, _offset(of, "term"))


def _rows(of: JsonObject, key: str, decode: Callable[[Any], Any]) -> tuple[Row[Any], ...]:
    rows = of.raw().get(key) or []
    if not isinstance(rows, list) or not all(
        isinstance(each, list) and len(each) == 2 for each in rows
    ):
        raise CodecError(f"{key} must be pairs of an offset and a value")
    found = tuple(Row(_number(start), decode(value)) for start, value in rows)
    if any(a.start >= b.start for a, b in pairwise(found)):
        raise CodecError(f"the offsets of {key} must grow")
    return found


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise CodecError(
            f"an offset or term must be a number from 0 up to 2^63 - 1, not {as_given(value, 40)}"
        )
    return value


_term = _number


def _membership(value: object) -> Membership:
    fields = JsonObject(value, "membership")
    voters, learners = fields.texts("voters"), fields.texts("learners")
    if not voters:
        raise CodecError("a membership must have voters")
    return Membership(voters, learners)


_DECODERS: Mapping[str, Callable[[JsonObject, str], Message]] = {
    "voteRequest": _vote_request,
    "voteAnswer": _vote_answer,
    "append": _append,
    "restart": _restart,
    "appendAnswer": _append_answer,
    "takeOver": _take_over,
}
_NAMES: Mapping[type, str] = {
    VoteRequest: "voteRequest",
    VoteAnswer: "voteAnswer",
    Append: "append",
    Restart: "restart",
    AppendAnswer: "appendAnswer",
    TakeOver: "takeOver",
}
