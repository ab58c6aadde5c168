"""Checks that a record of the log is valid at its place, and computes its queue entries.

The CRC of a record only covers its body. Damage elsewhere by a power cut shows differently: a sector that did not
reach the device reads as zeros. In the header, zeros break the sizes or the physical offset; topic and properties are
searched for them (`has_lost_sector`). Other changes there, and in most header fields, are only detected if the record
has a CRC of the whole record and `is_whole_checked` is set.
"""

from collections.abc import Sequence

from cometmq.codec.properties import find_property
from cometmq.codec.property_crc import is_crc_right
from cometmq.codec.record import Record, decode_record
from cometmq.kernel.crc import crc32
from cometmq.model.bounded_cache import keep_short
from cometmq.model.errors import CodecError
from cometmq.model.flags import INNER_BATCH, TRANSACTION_COMMIT, TRANSACTION_MASK
from cometmq.model.java_hash import java_hash
from cometmq.model.names import LMQ_PREFIX, SCHEDULE_TOPIC, length_fault
from cometmq.model.properties import DELAY, NAME_SEPARATOR, PROPERTY_SEPARATOR, TAGS
from cometmq.store.appender import delay_of_level
from cometmq.store.disk import Buffer

SECTOR_SIZE = 512  # Smallest unit that a device writes atomically.

# (topic, queue id, queue offset, tags code)
Place = tuple[str, int, int, int]

_KINDS = TRANSACTION_MASK | INNER_BATCH
_IN_A_QUEUE = (0, TRANSACTION_COMMIT)
_MULTI_QUEUES = b"INNER_MULTI_DISPATCH"
# Marks of records whose queue entries need more than their own queue offset and the hash of their tag.
UNUSUAL = (_KINDS, _MULTI_QUEUES, SCHEDULE_TOPIC)
_MULTI_OFFSETS = b"INNER_MULTI_QUEUE_OFFSET"
_TAGS_NAME = TAGS.encode()
_TAGS = _TAGS_NAME + NAME_SEPARATOR.encode()
_PROPERTY_END_TEXT = PROPERTY_SEPARATOR.encode()
_PROPERTY_END = _PROPERTY_END_TEXT[0]
_DELAY_NAME = DELAY.encode()


def valid_record(
    chunk: Buffer, position: int, offset: int, *, is_whole_checked: bool = False
) -> Record | None:
    """Return the record at a position if it is complete, seems unchanged and belongs at this offset, else None.

    With `is_whole_checked`, a CRC of the whole record (`cometmq.codec.property_crc`) must be right if there is one.
    This is optional because a message that was stored again may carry the CRC of its first record.
    """
    try:
        record = decode_record(chunk, position)
    except CodecError:
        return None
    if record.physical_offset != offset or crc32(record.body) & 0x7FFFFFFF != record.body_crc:
        return None
    if is_whole_checked and is_crc_right(chunk, position, record.store_size) is False:
        return None
    if (b"\0" in record.property_block or "\0" in record.topic) and has_lost_sector(record):
        return None
    return record


def has_lost_sector(record: Record) -> bool:
    """Return whether topic and properties contain a whole sector of zeros, or end with a partial sector of only zeros."""
    properties = record.property_block
    parts = record.topic.encode() + len(properties).to_bytes(2) + properties
    end = record.physical_offset + record.store_size
    start = end - len(parts)
    sector = -(-start // SECTOR_SIZE) * SECTOR_SIZE
    while sector < end:
        if not any(parts[sector - start : sector - start + SECTOR_SIZE]):
            return True
        sector += SECTOR_SIZE
    return False


def places_of(record: Record, delay_levels_ms: Sequence[int]) -> Sequence[Place]:
    """Return the queue entries for a record: (topic, queue id, queue offset, tags code).

    Records flagged as prepared or rolled back have none, nor has one whose topic cannot be a directory, nor a batch
    stored as one record: its entry is in a batch consume queue (cometmq.store.batch_queues). A message that names further
    queues (INNER_MULTI_DISPATCH, for light queues) has one more in each, if the lists of names and offsets fit together.
    """
    sys_flag, topic = record.sys_flag, record.topic
    if sys_flag & _KINDS not in _IN_A_QUEUE or not is_directory_name(topic):
        return ()
    code = tags_code(record, delay_levels_ms)
    own = (topic, record.queue_id, record.queue_offset, code)
    if _MULTI_QUEUES in record.property_block:
        return (own, *_light_places(record, code))
    return (own,)


def _light_places(record: Record, code: int) -> list[Place]:
    """Return the entries in the light queues (LMQ) and others that a record names (ConsumeQueue.multiDispatchLmqQueue)."""
    block = record.property_block
    try:
        names = (find_property(block, _MULTI_QUEUES) or "").split(",")
        offsets = [
            int(text) for text in (find_property(block, _MULTI_OFFSETS) or "").split(",")
        ]
    except (CodecError, ValueError):
        return []
    if len(names) != len(offsets):
        return []
    return [
        (name, 0 if name.startswith(LMQ_PREFIX) else record.queue_id, offset, code)
        for name, offset in zip(names, offsets, strict=True)
        if is_directory_name(name)
    ]


@keep_short(4096, length_max=255)
def is_directory_name(topic: str) -> bool:
    """Return whether a topic from a peer or a record (whose CRC does not cover it) can be the name of a directory."""
    return (
        topic not in ("", ".", "..")
        and "/" not in topic
        and "\0" not in topic
        and length_fault(topic) is None
    )


def tags_code(record: Record, delay_levels_ms: Sequence[int]) -> int:
    """Return the tags code for a record's entry: its tag's hash, or in the delay topic normally the due time in ms."""
    if record.topic == SCHEDULE_TOPIC:
        try:
            level = find_property(record.property_block, _DELAY_NAME)
            if level is not None and int(level) > 0:
                last = len(delay_levels_ms)
                delay_ms = delay_of_level(delay_levels_ms, min(int(level), last))
                return record.store_timestamp + delay_ms
        except (CodecError, ValueError):
            return 0
    return tag_hash(record.property_block)


def tag_hash(block: bytes) -> int:
    """Return Java's hash of the tag in a block of properties; 0 if it has no readable tag."""
    at = block.rfind(_TAGS)
    if at < 0:
        return 0
    if at and block[at - 1] != _PROPERTY_END:
        return _hash_of(_found_tag(block))
    end = block.find(_PROPERTY_END_TEXT, at)
    tag = block[at + len(_TAGS) : end if end >= 0 else len(block)]
    return _hash_of(tag or _found_tag(block))


def _found_tag(block: bytes) -> bytes:
    """Return the tag in a property block, searched property by property; empty if it has none or is damaged."""
    try:
        return (find_property(block, _TAGS_NAME) or "").encode()
    except CodecError:
        return b""


@keep_short(4096)
def _hash_of(tag: bytes) -> int:
    try:
        return java_hash(tag.decode()) if tag else 0
    except UnicodeDecodeError:
        return 0
