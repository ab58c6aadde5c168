"""Converts inner batches, which are records with several messages, to one record per message.

Topics of type BatchCQ store a batch as one record whose body is the batch (`codec.batch`); its messages have
consecutive queue offsets from the record's own on. Inner batches are rare, so they are rewritten to ordinary records
before decoding, rather than supported by every column. Follows MessageDecoder.decodeMessage of RocketMQ 5.3.3.
"""

from collections.abc import Iterator

import numpy as np

from cometmq.codec.batch import decode_batch
from cometmq.codec.compression import decompress
from cometmq.codec.record import Record, decode_record, encode_record
from cometmq.model import flags
from cometmq.model.errors import CodecError
from cometmq.offline.columns.body import BODY_SIZE_MAX
from cometmq.offline.columns.window import RecordWindow, record_starts

# Limit for the messages of one window, whose positions are 32-bit numbers for Arrow.
UNWRAPPED_SIZE_MAX = 512 << 20

_WRAPPED = flags.INNER_BATCH | flags.NEED_UNWRAP


def unwrapped(window: RecordWindow) -> RecordWindow:
    """Return the window with each inner batch replaced by its messages; the same window if there is none.

    Raises:
        CodecError: A batch is damaged, one decompresses to more than 64 MiB, or the records exceed 512 MiB.
    """
    wrapped = (window.sys_flag & _WRAPPED) == _WRAPPED
    if not np.any(wrapped):
        return window
    sizes = window.int32(0)
    pieces: list[bytes] = []
    total = 0
    for start, size, is_wrapped in zip(window.starts, sizes, wrapped, strict=True):
        piece = window.buffer[int(start) : int(start + size)]
        for message in _messages(decode_record(piece)) if is_wrapped else (piece,):
            pieces.append(message)
            total += len(message)
            if total > UNWRAPPED_SIZE_MAX:
                raise CodecError(
                    f"inner batches of {len(window.buffer)} bytes decompress to more than "
                    f"{UNWRAPPED_SIZE_MAX}, at offset {decode_record(piece).queue_offset}"
                )
    buffer = b"".join(pieces)
    return RecordWindow(buffer, record_starts(buffer))


def _messages(batch: Record) -> Iterator[bytes]:
    """Yield an encoded record for each message of a batch, with the batch's physical offset, times and hosts."""
    try:
        body = decompress(batch.body, batch.sys_flag, limit=BODY_SIZE_MAX)
    except CodecError as error:
        raise CodecError(
            f"the inner batch at offset {batch.queue_offset} of queue {batch.queue_id}: {error}"
        ) from error
    sys_flag = batch.sys_flag & ~(_WRAPPED | flags.COMPRESSED | flags.COMPRESSION_MASK)
    for number, item in enumerate(decode_batch(body)):
        yield encode_record(
            batch._replace(
                queue_offset=batch.queue_offset + number,
                sys_flag=sys_flag,
                flag=item.flag,
                body=item.body,
                property_block=item.property_block,
            )
        )
