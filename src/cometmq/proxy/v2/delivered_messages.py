"""Stored records as the messages of the gRPC protocol.

Source: GrpcConverter.buildMessage of RocketMQ 5.3.x. Differs: bodies compressed by 4.x clients are usually sent
uncompressed, because gRPC clients only know gzip; and properties that have a field of their own are not repeated among
those of the user.
"""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from cometmq.codec.compression import decompress
from cometmq.codec.host import decode_host
from cometmq.codec.message_id import encode_message_id
from cometmq.codec.receipt import Receipt
from cometmq.codec.record import Record
from cometmq.model import properties as keys_of
from cometmq.model.errors import CodecError
from cometmq.model.flags import COMPRESSED
from cometmq.model.names import is_retry_topic
from cometmq.model.properties import split_keys
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.checks import OF_THE_SYSTEM, without_namespace
from cometmq.proxy.v2.sent_messages import BORN_HOST, PRIORITY, TRACE_CONTEXT, type_of

# Larger answers should be made in a thread: digests and decompression take milliseconds a megabyte.
THREAD_SIZE = 256 << 10
_GZIP_MAGIC = b"\x1f\x8b"
# The largest body that is decompressed for a consumer, bytes.
_PLAIN_SIZE_MAX = 32 << 20
_HIDDEN = OF_THE_SYSTEM | {
    keys_of.SHARDING_KEY, TRACE_CONTEXT, PRIORITY, keys_of.CHECK_IMMUNITY_SECONDS,
    keys_of.TRANSACTION_CHECK_TIMES, keys_of.TIMER_OUT_MS,
}  # fmt: skip


class Delivery(NamedTuple):
    """A record to deliver to a consumer.

    Attributes:
        record: The record.
        receipt: Its receipt; None for a message that was not popped.
        handle: The receipt as text, with the offset in the log.
        attempt: Number of this delivery, 1 for the first.
        invisible_ms: How long it is hidden from the group, ms; 0 for a message that was not popped.
    """

    record: Record
    receipt: Receipt | None = None
    handle: str = ""
    attempt: int = 1
    invisible_ms: int = 0


def delivered_messages(deliveries: Sequence[Delivery], namespace: str) -> list[pb.Message]:
    """Return deliveries as messages of the protocol; the prefix of the client's namespace is removed from topics."""
    return [_message(each, namespace) for each in deliveries]


def _message(delivery: Delivery, namespace: str) -> pb.Message:
    record = delivery.record
    properties = record.properties()
    body, encoding = _body(record)
    topic = record.topic
    if is_retry_topic(topic):
        topic = properties.get(keys_of.RETRY_TOPIC, topic)
    message = pb.Message(body=body)
    message.topic.name = without_namespace(topic, namespace)
    message.topic.resource_namespace = namespace
    for name, value in properties.items():
        if name not in _HIDDEN:
            message.user_properties[name] = value
    system = message.system_properties
    system.body_encoding = encoding
    system.body_digest.type = pb.MD5
    system.body_digest.checksum = hashlib.md5(body, usedforsecurity=False).hexdigest().upper()
    _add_places(system, record, properties)
    _add_properties(system, properties)
    system.delivery_attempt = delivery.attempt
    if delivery.receipt is not None:
        system.receipt_handle = delivery.handle
        system.invisible_duration.FromMilliseconds(delivery.invisible_ms)
    return message


def _body(record: Record) -> tuple[bytes, pb.Encoding]:
    if not record.sys_flag & COMPRESSED:
        return record.body, pb.IDENTITY
    if record.body.startswith(_GZIP_MAGIC):
        return record.body, pb.GZIP
    # A body that cannot be decompressed is sent as it is: the consumer sees what is stored.
    with suppress(CodecError):
        return decompress(record.body, record.sys_flag, limit=_PLAIN_SIZE_MAX), pb.IDENTITY
    return record.body, pb.IDENTITY


def _add_places(
    system: pb.SystemProperties, record: Record, properties: dict[str, str]
) -> None:
    system.message_id = properties.get(keys_of.UNIQ_KEY) or encode_message_id(
        record.store_host, record.physical_offset
    )
    system.message_type = type_of(properties)
    system.born_timestamp.FromMilliseconds(record.born_timestamp)
    system.store_timestamp.FromMilliseconds(record.store_timestamp)
    system.born_host = properties.get(BORN_HOST) or decode_host(record.born_host)
    system.store_host = decode_host(record.store_host)
    system.queue_id = record.queue_id
    system.queue_offset = record.queue_offset


def _add_properties(system: pb.SystemProperties, properties: dict[str, str]) -> None:
    if tag := properties.get(keys_of.TAGS):
        system.tag = tag
    if keys := properties.get(keys_of.KEYS):
        system.keys.extend(split_keys(keys))
    if group := properties.get(keys_of.SHARDING_KEY):
        system.message_group = group
    if context := properties.get(TRACE_CONTEXT):
        system.trace_context = context
    deliver = properties.get(keys_of.TIMER_DELIVER_MS, "")
    if deliver.isdecimal() and len(deliver) < 16:
        system.delivery_timestamp.FromMilliseconds(int(deliver))
    priority = properties.get(PRIORITY, "")
    if priority.isdecimal() and len(priority) < 10:
        system.priority = int(priority)
    if origin := properties.get(keys_of.DLQ_ORIGIN_TOPIC):
        system.dead_letter_queue.topic = origin
        system.dead_letter_queue.message_id = properties.get("DLQ_ORIGIN_MESSAGE_ID", "")
