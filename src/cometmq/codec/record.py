"""A stored message: its bytes in the commitlog, which pull answers carry, too.

| store size 4 | magic 4 | body CRC 4 | queue id 4 | flag 4 | queue offset 8 | physical offset 8 |
| sysFlag 4 | born time 8 | born host 8 or 20 | store time 8 | store host 8 or 20 |
| reconsume times 4 | prepared offset 8 | body size 4 | body | topic size 1 or 2 | topic |
| properties size 2 | properties |

The magic gives the width of the topic size: one byte for V1, two for V2 (topics over 127 bytes). Two bits of sysFlag
tell which host is IPv6. There are therefore four fixed heads, of 88, 100 and 112 bytes: `RECORD_HEADS`. Source:
MessageDecoder, MessageExtEncoder of RocketMQ 5.3.3; docs/format/record.md.
"""

import struct
import sys
from struct import Struct
from typing import NamedTuple

from cometmq.codec.host import HOST_V4_SIZE, HOST_V6_SIZE, NO_HOST
from cometmq.codec.properties import PROPERTIES_SIZE_MAX, decode_properties
from cometmq.kernel import layouts
from cometmq.kernel.crc import crc32
from cometmq.kernel.layouts import (
    CRC_MASK,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_MIN,
    SHORT_SIZE,
)
from cometmq.kernel.records import HOSTS_V6
from cometmq.model.errors import CodecError
from cometmq.model.flags import BORN_HOST_V6, STORE_HOST_V6

__all__ = [
    "MAGIC_BLANK",
    "MAGIC_V1",
    "MAGIC_V2",
    "RECORD_HEAD",
    "RECORD_HEADS",
    "Record",
    "blank_tail",
    "body_crc",
    "decode_record",
    "decode_records",
    "encode_record",
    "property_block",
    "record_size",
    "topic_block",
]

HOST_BITS = HOSTS_V6

RECORD_HEAD = layouts.RECORD_HEAD.struct  # For two IPv4 hosts.
_HOST_V6_TYPE = f"{HOST_V6_SIZE}s"
RECORD_HEADS = {  # by sysFlag & HOST_BITS
    0: RECORD_HEAD,
    BORN_HOST_V6: layouts.RECORD_HEAD.with_types(born_host=_HOST_V6_TYPE).struct,
    STORE_HOST_V6: layouts.RECORD_HEAD.with_types(store_host=_HOST_V6_TYPE).struct,
    BORN_HOST_V6 | STORE_HOST_V6: layouts.RECORD_HEAD.with_types(
        born_host=_HOST_V6_TYPE, store_host=_HOST_V6_TYPE
    ).struct,
}

# Positions of the fixed fields, in bytes from the record's start.
_AT = layouts.RECORD_HEAD.at
MAGIC_AT = _AT["magic"]
BODY_CRC_AT = _AT["body_crc"]
QUEUE_ID_AT = _AT["queue_id"]
FLAG_AT = _AT["flag"]
QUEUE_OFFSET_AT = _AT["queue_offset"]
PHYSICAL_OFFSET_AT = _AT["physical_offset"]
SYS_FLAG_AT = _AT["sys_flag"]
BORN_TIME_AT = _AT["born_time"]
BORN_HOST_AT = _AT["born_host"]
STORE_TIME_AT = _AT["store_time"]  # 68 when the born host is IPv6; see `store_time_at`.
HOST_V6_EXTRA = HOST_V6_SIZE - HOST_V4_SIZE  # Additional bytes of an IPv6 host.

TOPIC_SIZE_V1_MAX = layouts.TOPIC_SIZE_V1_MAX
TOPIC_SIZE_MAX = 32767  # V2 has a signed 16-bit size.

_BLANK_TAIL = layouts.RECORD_MARK.struct
# Bytes that an append leaves free at the end of a log file for this mark.
BLANK_TAIL_SIZE = _BLANK_TAIL.size

_BODY_AT = RECORD_HEAD.size  # 88
_SHORT = Struct(">H")


class Record(NamedTuple):
    """A stored message, with its fields in the order of their bytes.

    Attributes:
        store_size: Size of the whole record in bytes; computed by `encode_record`.
        magic: MAGIC_V1 or MAGIC_V2; chosen by `encode_record`.
        body_crc: CRC-32 of the stored body, 31 bits; computed by `encode_record`.
        queue_id: Queue of the topic.
        flag: Number set by the user.
        queue_offset: Position in the queue, in messages.
        physical_offset: Position in the commitlog, bytes.
        sys_flag: Bits of `model.flags`.
        born_timestamp: Time when the producer made the message, ms since 1970.
        born_host: Address of the producer, 8 or 20 bytes (`codec.host`).
        store_timestamp: Time when the broker stored the message, ms since 1970.
        store_host: Address of the broker, 8 or 20 bytes.
        reconsume_times: Number of earlier deliveries that failed, at the time of this record; each retry is a new record.
        prepared_offset: For a committed message of a transaction, the physical offset of its half message.
        body: Body as stored, possibly compressed (`codec.compression`).
        topic: Topic that the message is stored in.
        property_block: Encoded properties (`codec.properties`).
    """

    store_size: int = 0
    magic: int = MAGIC_V1
    body_crc: int = 0
    queue_id: int = 0
    flag: int = 0
    queue_offset: int = 0
    physical_offset: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    born_host: bytes = NO_HOST
    store_timestamp: int = 0
    store_host: bytes = NO_HOST
    reconsume_times: int = 0
    prepared_offset: int = 0
    body: bytes = b""
    topic: str = ""
    property_block: bytes = b""

    def properties(self) -> dict[str, str]:
        """Decode the properties of the message again at each call; raises CodecError if they are not UTF-8."""
        return decode_properties(self.property_block)


def body_crc(body: bytes | bytearray | memoryview) -> int:
    """Return the CRC-32 of a stored body with the sign bit cleared, as in records."""
    return crc32(body) & CRC_MASK


def topic_block(topic: bytes) -> tuple[int, bytes]:
    """Return the magic of a record with this topic, and the topic's bytes preceded by their size.

    Raises:
        CodecError: The topic has more than 32767 bytes.
    """
    size = len(topic)
    if size <= TOPIC_SIZE_V1_MAX:
        return MAGIC_V1, bytes((size,)) + topic
    if size <= TOPIC_SIZE_MAX:
        return MAGIC_V2, _SHORT.pack(size) + topic
    raise CodecError(f"the topic has {size} bytes; a record has room for {TOPIC_SIZE_MAX}")


def record_size(*, body: int, topic: int, properties: int, sys_flag: int = 0) -> int:
    """Return the size of a record from the sizes of its parts in bytes and the host bits of its sysFlag."""
    head = RECORD_HEADS[sys_flag & HOST_BITS].size
    topic += 1 if topic <= TOPIC_SIZE_V1_MAX else 2
    return head + body + topic + SHORT_SIZE + properties


def store_time(record: bytes | memoryview) -> int:
    """Return the store time of a record, ms since 1970; needs only its first `STORE_TIME_AT` + 20 bytes."""
    at = store_time_at(int.from_bytes(record[SYS_FLAG_AT : SYS_FLAG_AT + 4]))
    return int.from_bytes(record[at : at + 8], signed=True)


def store_time_at(sys_flag: int) -> int:
    """Return the position of the store time in a record with this sysFlag, in bytes from its start."""
    return STORE_TIME_AT + HOST_V6_EXTRA if sys_flag & BORN_HOST_V6 else STORE_TIME_AT


def blank_tail(left: int) -> bytes:
    """Encode the mark for a log file whose last `left` bytes contain no record; raises CodecError for less than 8."""
    if left < BLANK_TAIL_SIZE:
        raise CodecError(
            f"a log file has {left} bytes left; its end mark needs {BLANK_TAIL_SIZE}"
        )
    return _BLANK_TAIL.pack(left, MAGIC_BLANK)


def encode_record(record: Record) -> bytes:
    """Encode a record; size, magic, CRC and host bits are derived from the other fields.

    Raises:
        CodecError: Topic or properties are too long, a host has neither 8 nor 20 bytes, or a number exceeds its field.
    """
    magic, topic = topic_block(record.topic.encode())
    if len(record.property_block) > PROPERTIES_SIZE_MAX:
        raise CodecError(
            f"the properties have {len(record.property_block)} bytes; a record has room for {PROPERTIES_SIZE_MAX}"
        )
    sys_flag = record.sys_flag & ~HOST_BITS
    sys_flag |= _host_bit(record.born_host, BORN_HOST_V6)
    sys_flag |= _host_bit(record.store_host, STORE_HOST_V6)
    head = RECORD_HEADS[sys_flag & HOST_BITS]
    size = head.size + len(record.body) + len(topic) + SHORT_SIZE + len(record.property_block)
    try:
        fixed = head.pack(
            size,
            magic,
            body_crc(record.body),
            *record[3:7],
            sys_flag,
            *record[8:14],
            len(record.body),
        )
    except struct.error as error:
        raise CodecError(f"a field of the record is out of range: {error}") from None
    properties_size = _SHORT.pack(len(record.property_block))
    return b"".join((fixed, record.body, topic, properties_size, record.property_block))


def _host_bit(host: bytes, bit: int) -> int:
    if len(host) == HOST_V4_SIZE:
        return 0
    if len(host) == HOST_V4_SIZE + HOST_V6_EXTRA:
        return bit
    raise CodecError(f"a host has {len(host)} bytes; it needs 8 (IPv4) or 20 (IPv6)")


def decode_record(buffer: bytes | bytearray | memoryview, position: int = 0) -> Record:
    """Decode the record at a position; `codec.record_check` verifies the CRC, this function does not.

    Raises:
        CodecError: No complete, well-formed record starts at the position.
    """
    try:
        size, magic = _BLANK_TAIL.unpack_from(buffer, position)
    except struct.error:
        raise CodecError(f"no record fits at byte {position} of {len(buffer)}") from None
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise CodecError(f"no record at byte {position}: magic {magic:#010x}")
    if position + size > len(buffer):
        raise CodecError(
            f"the record at byte {position} has {size} bytes, but only {len(buffer) - position} are available"
        )
    if type(buffer) is not bytes:  # Copy only the record, for example out of a mapped file.
        buffer, position = bytes(buffer[position : position + size]), 0
    return _decode(buffer, position, size, magic)


def property_block(record: bytes | memoryview) -> bytes:
    """Return the property block of a record without decoding the rest.

    Raises CodecError if the record ends before the block; a block that is truncated is returned as it is.
    """
    try:
        head_size = RECORD_HEADS[record[SYS_FLAG_AT + 3] & HOST_BITS].size
        at = head_size + int.from_bytes(record[head_size - 4 : head_size])
        if record[MAGIC_AT + 3] == MAGIC_V1 & 0xFF:
            at += 1 + record[at]
        else:
            at += 2 + (record[at] << 8 | record[at + 1])
        return bytes(record[at + 2 : at + 2 + (record[at] << 8 | record[at + 1])])
    except IndexError:
        raise CodecError("a record ends within its fields") from None


def decode_records(
    body: bytes | bytearray | memoryview, *, most: int = sys.maxsize
) -> list[Record]:
    """Decode the records in a body, such as that of a pull answer, at most `most`.

    Unlike Java's MessageDecoder.decodes, this does not silently drop the rest of a malformed body, because a consumer
    that continued after it would lose messages.

    Raises:
        CodecError: The body contains anything other than complete records; not checked after the last of `most`.
    """
    body = bytes(body)  # No copy if it is already bytes.
    records: list[Record] = []
    append, unpack = records.append, RECORD_HEAD.unpack_from
    position, end = 0, len(body)
    topic, topic_bytes = "", b""
    while position + RECORD_HEAD.size <= end and len(records) < most:
        head = unpack(body, position)
        size, magic, sys_flag, body_size = head[0], head[1], head[7], head[14]
        after = position + size
        # Most records are V1, with IPv4 hosts, and of the same topic as the previous one. They are decoded here in two
        # thirds of the time. Invariant: no index below exceeds the record.
        if (
            magic == MAGIC_V1
            and not sys_flag & HOST_BITS
            and after <= end
            and 0 <= body_size <= size - RECORD_SIZE_MIN
        ):
            body_end = position + _BODY_AT + body_size
            topic_end = body_end + 1 + body[body_end]
            block_start = topic_end + 2
            if (
                body[body_end + 1 : topic_end] == topic_bytes
                and block_start <= after
                and block_start + (body[topic_end] << 8 | body[topic_end + 1]) == after
            ):
                content = body[position + _BODY_AT : body_end], topic, body[block_start:after]
                append(_new(Record, head[:14] + content))
                position = after
                continue
        record = decode_record(body, position)
        append(record)
        topic, topic_bytes = record.topic, record.topic.encode()
        position += record.store_size
    if position != end and len(records) < most:
        raise CodecError(f"no whole record at byte {position} of {end}")
    return records


def _decode(buffer: bytes, position: int, size: int, magic: int) -> Record:
    """Decode a record of known position, size and magic; check that its parts add up and that its topic is UTF-8."""
    try:
        # The host bits select the head. Most records have IPv4 hosts, so try that head first.
        head = RECORD_HEAD.unpack_from(buffer, position)
        start = position + _BODY_AT
        if head[7] & HOST_BITS:
            layout = RECORD_HEADS[head[7] & HOST_BITS]
            head = layout.unpack_from(buffer, position)
            start = position + layout.size
        body_end = start + head[14]
        if magic == MAGIC_V1:
            topic_start = body_end + 1
            topic_end = topic_start + buffer[body_end]
        else:
            topic_start = body_end + 2
            topic_end = topic_start + (buffer[body_end] << 8 | buffer[body_end + 1])
        block_start = topic_end + 2
        block_end = block_start + (buffer[topic_end] << 8 | buffer[topic_end + 1])
        if head[14] < 0 or block_end != position + size:
            raise CodecError(
                f"the record at byte {position} has {size} bytes; its parts add up to "
                f"{block_end - position}"
            )
        parts = (
            buffer[start:body_end],
            str(buffer[topic_start:topic_end], "utf-8"),
            buffer[block_start:block_end],
        )
    except (struct.error, IndexError):
        raise CodecError(f"the record at byte {position} ends within its fields") from None
    except UnicodeDecodeError as error:
        raise CodecError(f"the topic of the record at byte {position}: {error}") from None
    # Record(*...) takes twice as long, because it calls a Python-level __new__.
    return _new(Record, head[:14] + parts)


_new = tuple.__new__
