"""Conversion of the records in a broker's answer to a consumer's messages, where a pull spends most of its time; properties.

A message gets its queue, offset and body, and the head and properties of its record, from which other values are
decoded on access. Compiled twin: `_messages`.
"""

from collections.abc import Iterator
from typing import Any, TypeVar

from cometmq.kernel.layouts import (
    MAGIC_V1,
    PROPERTIES_SIZE_MAX,
    RECORD_SIZE_MIN,
    TOPIC_SIZE_V1_MAX,
)
from cometmq.kernel.records import HEAD

_HEAD_SIZE = HEAD.size  # 88
_NAME_END = "\1"
_VALUE_END = "\2"

Queue = TypeVar("Queue")
Message = TypeVar("Message")
# Creates an empty object, and sets an attribute of an immutable one.
_new = object.__new__
_put = object.__setattr__


def plain_messages(
    body: bytes,
    position: int,
    queue: Queue,
    topic: bytes,
    kind: type[Message],
    messages: list[Message],
) -> int:
    """Convert consecutive simple records to messages, up to the first other record.

    A simple record is complete, of version 1 and of the topic, has sysFlag 0 (IPv4 hosts, uncompressed, no transaction),
    and properties that `plain_properties` decodes.

    Args:
        body: Concatenated records.
        position: Position of the first record, bytes.
        queue: Queue from which they were pulled.
        topic: Name of the topic as bytes, without a size; over 127 bytes no record is simple.
        kind: Class of the messages, with slots `queue`, `queue_offset`, `body`, and `_record` (head and properties),
            which are set without a call of its constructor.
        messages: The messages are appended to this list.

    Returns:
        The position after the last of these records.
    """
    for start, body_end, block_start, after in _plain_places(body, position, topic):
        head = body[start : start + _HEAD_SIZE]
        message = _new(kind)
        _put(message, "queue", queue)
        _put(message, "queue_offset", HEAD.unpack(head)[5])
        _put(message, "body", body[start + _HEAD_SIZE : body_end])
        _put(message, "_record", head + body[block_start:after])
        messages.append(message)
        position = after
    return position


def _plain_places(
    body: bytes, position: int, topic: bytes
) -> Iterator[tuple[int, int, int, int]]:
    """Yield the places of each simple record (see `plain_messages`), and stop before the first other record.

    The places are positions in `body`: the record's start, the end of the message's body, the start of the properties,
    and the record's end.
    """
    if len(topic) > TOPIC_SIZE_V1_MAX:
        return
    topic_block = bytes((len(topic),)) + topic
    end = len(body)
    while 0 <= position <= end - _HEAD_SIZE:
        head = HEAD.unpack_from(body, position)
        size, body_size = head[0], head[14]
        after, start = position + size, position + _HEAD_SIZE
        body_end = start + body_size
        if (
            head[1] != MAGIC_V1
            or head[7]
            or after > end
            or not 0 <= body_size <= size - RECORD_SIZE_MIN
            or not body.startswith(topic_block, body_end, after)
        ):
            return
        block_start = body_end + len(topic_block) + 2
        block_size = int.from_bytes(body[block_start - 2 : block_start])
        if block_start > after or block_start + block_size != after:
            return
        if plain_properties(body[block_start:after]) is None:
            return
        yield position, body_end, block_start, after
        position = after


def record_parts(record: bytes) -> tuple[tuple[Any, ...], bytes]:
    """Split a message's `_record` into the fields of the record's head (`records.HEAD`) and the property block."""
    return HEAD.unpack_from(record), record[_HEAD_SIZE:]


def plain_properties(block: bytes) -> dict[str, str] | None:
    """Decode a property block in the usual form; return None for any other, such as one without the last end mark.

    A usual block is UTF-8 and consists of complete entries: a name, one separator, a value, the end mark. Names and
    values are not empty; the block may be. Of entries with the same name, the last one counts.
    """
    try:
        text = str(block, "utf-8")
    except UnicodeDecodeError:
        return None
    if not text:
        return {}
    if (
        not text.endswith(_VALUE_END)
        or text.startswith(_NAME_END)
        or "\2\1" in text
        or "\1\2" in text
    ):
        return None
    try:
        return dict([piece.split(_NAME_END) for piece in text[:-1].split(_VALUE_END)])
    except ValueError:
        return None  # A piece with no separator, or with two.


def plain_block(properties: dict[str, str]) -> bytes | None:
    """Encode properties as a block, in their order; `plain_properties` decodes it.

    Returns None if a name or value is empty, contains a separator or cannot be written as UTF-8, or if the block would have
    more than PROPERTIES_SIZE_MAX bytes.
    """
    text = "".join([f"{name}\1{value}\2" for name, value in properties.items()])
    count = len(properties)
    if (
        text.count(_NAME_END) != count
        or text.count(_VALUE_END) != count
        or "\1\2" in text
        or "\2\1" in text
        or text.startswith(_NAME_END)
    ):
        return None
    try:
        block = text.encode()
    except UnicodeEncodeError:
        return None
    return block if len(block) <= PROPERTIES_SIZE_MAX else None
