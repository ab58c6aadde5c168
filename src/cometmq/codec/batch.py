"""The body of a batch send: the messages of one topic, concatenated.

| item size 4 | magic 4 | body CRC 4 | flag 4 | body size 4 | body | properties size 2 | properties |

Magic and CRC are written as 0 and not read; the broker computes the CRC itself. Each item becomes an ordinary record,
unless the topic stores inner batches, whose records carry the same bytes as their body. Source:
MessageDecoder.encodeMessage of RocketMQ 5.3.3; docs/format/batch.md.
"""

from collections.abc import Iterable, Iterator
from struct import Struct, error
from typing import NamedTuple

from cometmq.codec.properties import PROPERTIES_SIZE_MAX
from cometmq.kernel import layouts
from cometmq.model.errors import CodecError

BATCH_HEAD = layouts.BATCH_HEAD.struct
BATCH_HEAD_SIZE = BATCH_HEAD.size  # 20
PROPERTIES_SIZE = Struct(">h")
BATCH_ITEM_SIZE_MIN = BATCH_HEAD_SIZE + PROPERTIES_SIZE.size  # 22


class BatchItem(NamedTuple):
    """A message of a batch.

    Attributes:
        flag: Number set by the user.
        body: Payload as stored.
        property_block: Encoded properties (`codec.properties`).
    """

    flag: int
    body: bytes
    property_block: bytes


def encode_item(flag: int, body: bytes, property_block: bytes) -> bytes:
    """Encode one message of a batch; raises CodecError if its properties are longer than 32767 bytes."""
    properties_size = len(property_block)
    if properties_size > PROPERTIES_SIZE_MAX:
        raise CodecError(
            f"the properties have {properties_size} bytes; a record has room for {PROPERTIES_SIZE_MAX}"
        )
    size = BATCH_ITEM_SIZE_MIN + len(body) + properties_size
    return b"".join(
        (
            BATCH_HEAD.pack(size, 0, 0, flag, len(body)),
            body,
            PROPERTIES_SIZE.pack(properties_size),
            property_block,
        )
    )


def encode_batch(items: Iterable[tuple[int, bytes, bytes]]) -> bytes:
    """Encode a batch body from (flag, body, property block) items; raises CodecError if a block is too long."""
    return b"".join([encode_item(flag, body, block) for flag, body, block in items])


def decode_batch(body: bytes) -> list[BatchItem]:
    """Decode the messages of a batch body; raises CodecError, naming the position, if an item is malformed."""
    items = []
    position = 0
    size = len(body)
    while position < size:
        try:
            item_size, _, _, flag, body_size = BATCH_HEAD.unpack_from(body, position)
            start = position + BATCH_HEAD_SIZE
            properties_at = start + body_size
            if body_size < 0 or properties_at > size:
                raise _item_error(position, f"a body of {body_size} bytes")
            (properties_size,) = PROPERTIES_SIZE.unpack_from(body, properties_at)
        except error:
            raise _item_error(position, "fewer bytes than its fixed fields") from None
        properties_start = properties_at + 2
        end = properties_start + properties_size
        if properties_size < 0 or end != position + item_size or end > size:
            raise _item_error(position, f"the size {item_size}, not the sum of its fields")
        items.append(BatchItem(flag, body[start:properties_at], body[properties_start:end]))
        position = end
    return items


def cut_batch(body: bytes, count_max: int) -> Iterator[int]:
    """Yield the end position of each piece when cutting a batch body into pieces of at most `count_max` messages.

    Raises:
        CodecError: An item is malformed, and its position is named; earlier pieces may have been yielded already.
    """
    size, position, count = len(body), 0, 0
    while position < size:
        try:
            item_size, _, _, _, body_size = BATCH_HEAD.unpack_from(body, position)
            (own_size,) = PROPERTIES_SIZE.unpack_from(
                body, position + BATCH_HEAD_SIZE + max(body_size, 0)
            )
        except error:
            raise _item_error(position, "fewer bytes than its fixed fields") from None
        end = position + item_size
        if (
            body_size < 0
            or own_size < 0
            or item_size != BATCH_ITEM_SIZE_MIN + body_size + own_size
            or end > size
        ):
            raise _item_error(position, f"the size {item_size}, not the sum of its fields")
        if count == count_max:
            yield position
            count = 0
        count += 1
        position = end
    yield size


def _item_error(position: int, what: str) -> CodecError:
    return CodecError(f"the batch item at byte {position} has {what}")
