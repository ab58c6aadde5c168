"""Formats a record for people and programs: as a dict for JSON, or as the bytes and names of its fields."""

from collections.abc import Iterator

from cometmq.codec.compression import decompress
from cometmq.codec.host import decode_host
from cometmq.codec.message_id import encode_message_id
from cometmq.codec.record import MAGIC_V1, Record
from cometmq.model.errors import CodecError
from cometmq.model.flags import TRANSACTION_MASK

BODY_SIZE_MAX = 64 << 20  # Limit for decompression, bytes.

_TRANSACTIONS = {0: None, 4: "prepared", 8: "commit", 12: "rollback"}
_HEAD_FIELDS = (
    ("store size", 4), ("magic", 4), ("body crc", 4), ("queue id", 4), ("flag", 4),
    ("queue offset", 8), ("physical offset", 8), ("sysFlag", 4), ("born time", 8),
    ("born host", 8), ("store time", 8), ("store host", 8), ("reconsume times", 4),
    ("prepared offset", 8), ("body size", 4),
)  # fmt: skip


def record_json(record: Record) -> dict[str, object]:
    """Return a record as a dict for JSON; a body that is not UTF-8 is hexadecimal in `body_hex` instead of `body`.

    A compressed body is decompressed; if that fails, `body_hex` has it as stored and `body_error` the reason.
    """
    return {
        "physical_offset": record.physical_offset,
        "size": record.store_size,
        "topic": record.topic,
        "queue": record.queue_id,
        "offset": record.queue_offset,
        "offset_id": encode_message_id(record.store_host, record.physical_offset),
        "flag": record.flag,
        "sys_flag": record.sys_flag,
        "transaction": _TRANSACTIONS[record.sys_flag & TRANSACTION_MASK],
        "born_ms": record.born_timestamp,
        "born_host": decode_host(record.born_host),
        "stored_ms": record.store_timestamp,
        "store_host": decode_host(record.store_host),
        "reconsume_times": record.reconsume_times,
        "prepared_offset": record.prepared_offset,
        "body_crc": record.body_crc,
        **_properties(record),
        **_body(record),
    }


def _properties(record: Record) -> dict[str, object]:
    try:
        return {"properties": record.properties()}
    except CodecError:
        return {"properties_hex": record.property_block.hex()}


def _body(record: Record) -> dict[str, object]:
    body = record.body
    try:
        body = decompress(body, record.sys_flag, limit=BODY_SIZE_MAX)
    except CodecError as error:
        return {"body_error": str(error), "body_hex": body.hex()}
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_hex": body.hex()}


def record_fields(content: bytes, record: Record) -> Iterator[tuple[int, str, bytes]]:
    """Yield (position in the record, field name, bytes) of every field of a stored record, in order.

    `content` are the bytes of `record`.
    """
    at = 0
    for name, size in _sized_fields(record):
        yield at, name, content[at : at + size]
        at += size


def _sized_fields(record: Record) -> Iterator[tuple[str, int]]:
    sizes = {"born host": len(record.born_host), "store host": len(record.store_host)}
    for name, size in _HEAD_FIELDS:
        yield name, sizes.get(name, size)
    yield "body", len(record.body)
    yield "topic size", 1 if record.magic == MAGIC_V1 else 2
    yield "topic", len(record.topic.encode())
    yield "properties size", 2
    yield "properties", len(record.property_block)
