"""Messages of a consumer, straight from the records of a broker's answer; what a pull spends its time on.

A record is taken apart, its properties become a dict, its ids text, in one turn of a loop. Compiled:
`_messages`.

Next: cometmq.client.consumer.pull.process_queue
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from cometmq.kernel.layouts import MAGIC_V1, RECORD_SIZE_MIN, TOPIC_SIZE_V1_MAX
from cometmq.kernel.records import HEAD

_HEAD_SIZE = HEAD.size  # 88
_NAME_END = "\1"
_VALUE_END = "\2"
_UNIQUE = "UNIQ_KEY"
_LONG_MASK = (1 << 64) - 1

Queue = TypeVar("Queue")
Message = TypeVar("Message")
_Parts = tuple[tuple[Any, ...], bytes, dict[str, str]]


def plain_messages(
    body: bytes,
    position: int,
    queue: Queue,
    topic: bytes,
    make: Callable[..., Message],
    host_text: Callable[[bytes], str],
    messages: list[Message],
) -> int:
    """Take messages from plain records, as far as they go.

    Plain is a whole record of version 1 and of the topic, whose sysFlag is 0 (IPv4 hosts, not
    compressed, no transaction) and whose properties are plain.

    Args:
        body: records, one behind the other.
        position: where in it to begin, bytes.
        queue: where they were pulled from.
        topic: its name as records hold it.
        make: `model.message.make_stored_message`.
        host_text: `codec.host.decode_host`.
        messages: they are appended here.

    Returns:
        The place in the body where they end.
    """
    for head, content, properties in _plain_parts(body, position, topic):
        (
            size, _, crc, _, flag, queue_offset, offset, _, born_ms, born_host, stored_ms, store_host,
            times, prepared, _,
        ) = head  # fmt: skip
        offset_id = f"{store_host.hex().upper()}{offset & _LONG_MASK:016X}"
        messages.append(
            make(
                queue, queue_offset, properties.get(_UNIQUE, offset_id), offset_id, content, properties,
                born_ms, host_text(born_host), stored_ms, host_text(store_host), flag, 0, times, offset,
                size, crc, prepared,
            )
        )  # fmt: skip
        position += size
    return position


def _plain_parts(body: bytes, position: int, topic: bytes) -> Iterator[_Parts]:
    """(head, body, properties) of plain records, one by one."""
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
        properties = plain_properties(body[block_start:after])
        if properties is None:
            return
        yield head, body[start:body_end], properties
        position = after


def plain_properties(block: bytes) -> dict[str, str] | None:
    """The properties of a block such as all clients and brokers write it; None of any other.

    Such a block is UTF-8, and nothing or whole pieces: a name, one separator, a value, the end's mark.
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
