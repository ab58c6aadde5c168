"""Messages as producers send them, checked and turned into the properties and flags that the broker stores.

Source: SendMessageActivity.buildMessageProperty of RocketMQ 5.3.x. Checks are in its order.
"""

import hashlib
import zlib
from collections.abc import Mapping
from typing import NamedTuple

from cometmq.model import properties as keys_of
from cometmq.model.flags import COMPRESSED, TRANSACTION_PREPARED
from cometmq.model.properties import KEY_SEPARATOR
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.checks import (
    RECOVERY_SECONDS_MAX,
    check_keys,
    check_message_group,
    check_properties,
    check_size,
    check_tag,
    milliseconds,
)
from cometmq.proxy.v2.statuses import ProxyRefusal

TRACE_CONTEXT = "TRACE_CONTEXT"
BORN_HOST = "__BORNHOST"
PRIORITY = "_SYS_MSG_PRIORITY_"
_BORN_HOST_LENGTH_MAX = 255
_DELIVERY_KEYS = (
    keys_of.DELAY, keys_of.TIMER_DELIVER_MS, keys_of.TIMER_DELAY_SEC, keys_of.TIMER_DELAY_MS,
)  # fmt: skip


class SendLimits(NamedTuple):
    """The broker's limits for messages: size of a body in bytes, and how far ahead a delivery time may be in ms."""

    body_size_max: int
    delay_ms_max: int


class SentMessage(NamedTuple):
    """A message of a producer that passed the checks, as it is to be stored.

    Attributes:
        properties: The properties to store, by name.
        sys_flag: Bits of `model.flags`.
        born_ms: When the producer made it, or when it arrived if it does not tell, ms since 1970.
        body: The body as the producer sent it.
        group: Its message group (FIFO); None if it has none.
        type: Its type, by its properties.
        message_id: Its id, chosen by the producer.
    """

    properties: dict[str, str]
    sys_flag: int
    born_ms: int
    body: bytes
    group: str | None
    type: pb.MessageType
    message_id: str


def read_message(
    message: pb.Message, topic: str, limits: SendLimits, *, now_ms: int, host: str
) -> SentMessage:
    """Check a message and return what the broker stores of it; `host` is stored as its origin if it names none.

    Raises:
        ProxyRefusal: The message is not allowed; code and text say why.
    """
    system, body = message.system_properties, message.body
    _check_body(body, limits)
    properties = dict(message.user_properties)
    size = check_properties(properties)
    if system.tag:
        check_tag(system.tag)
        properties[keys_of.TAGS] = system.tag
        size += len(system.tag.encode())
    if keys := [key for key in system.keys if key]:
        check_keys(keys)
        properties[keys_of.KEYS] = KEY_SEPARATOR.join(keys)
        size += sum(len(key.encode()) for key in keys)
    check_size(size)
    if not system.message_id or system.message_id.isspace():
        raise ProxyRefusal(pb.ILLEGAL_MESSAGE_ID, "message id cannot be empty")
    properties[keys_of.UNIQ_KEY] = system.message_id
    _add_transaction(properties, system, topic)
    _add_delivery(properties, system, limits, now_ms)
    _add_group(properties, system)
    properties[keys_of.RECONSUME_TIME] = str(system.delivery_attempt)
    properties[keys_of.PRODUCER_GROUP] = topic
    if system.trace_context:
        properties[TRACE_CONTEXT] = system.trace_context
    properties[BORN_HOST] = system.born_host[:_BORN_HOST_LENGTH_MAX] or host
    born_ms = _add_born_time(properties, system, now_ms)
    if system.HasField("priority"):
        properties[PRIORITY] = str(system.priority)
    _check_text(properties)
    _check_digest(system, body)
    kind = type_of(properties)
    flag = COMPRESSED if system.body_encoding == pb.GZIP else 0
    if kind == pb.TRANSACTION:
        flag |= TRANSACTION_PREPARED
    return SentMessage(
        properties, flag, born_ms, body, properties.get(keys_of.SHARDING_KEY), kind, system.message_id
    )  # fmt: skip


def type_of(properties: Mapping[str, str]) -> pb.MessageType:
    """Return the type of a message by its stored properties (TopicMessageType.parseFromMessageProperty)."""
    if properties.get(keys_of.TRAN_MSG) == "true":
        return pb.TRANSACTION
    if any(name in properties for name in _DELIVERY_KEYS):
        return pb.DELAY
    if keys_of.SHARDING_KEY in properties:
        return pb.FIFO
    return pb.NORMAL


def _check_body(body: bytes, limits: SendLimits) -> None:
    if not body:
        raise ProxyRefusal(pb.MESSAGE_BODY_EMPTY, "message body cannot be empty")
    if len(body) > limits.body_size_max:
        raise ProxyRefusal(
            pb.MESSAGE_BODY_TOO_LARGE,
            f"message body cannot exceed the max {limits.body_size_max}",
        )


def _add_born_time(properties: dict[str, str], system: pb.SystemProperties, now_ms: int) -> int:
    if not system.HasField("born_timestamp"):
        return now_ms
    born_ms = milliseconds(system.born_timestamp)
    if born_ms < 0:
        raise ProxyRefusal(pb.BAD_REQUEST, "the born timestamp is before 1970")
    properties[keys_of.BORN_TIMESTAMP] = str(born_ms)
    return born_ms


def _add_transaction(
    properties: dict[str, str], system: pb.SystemProperties, topic: str
) -> None:
    if system.HasField("orphaned_transaction_recovery_duration"):
        seconds = milliseconds(system.orphaned_transaction_recovery_duration) // 1000
        if not 0 <= seconds <= RECOVERY_SECONDS_MAX:
            raise ProxyRefusal(
                pb.BAD_REQUEST,
                f"the max transaction recovery time of message is too large, max is {RECOVERY_SECONDS_MAX}",
            )
        if system.message_type == pb.TRANSACTION and seconds:
            properties[keys_of.CHECK_IMMUNITY_SECONDS] = str(seconds)
    if system.message_type != pb.TRANSACTION:
        return
    properties[keys_of.TRAN_MSG] = "true"
    if system.HasField("delivery_timestamp"):
        raise ProxyRefusal(
            pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"a message of a transaction cannot have a delivery timestamp (topic {topic})",
        )


def _add_delivery(
    properties: dict[str, str], system: pb.SystemProperties, limits: SendLimits, now_ms: int
) -> None:
    if not system.HasField("delivery_timestamp"):
        return
    deliver_ms = milliseconds(system.delivery_timestamp)
    if deliver_ms - now_ms > limits.delay_ms_max:
        raise ProxyRefusal(
            pb.ILLEGAL_DELIVERY_TIME,
            f"the max delay time of message is too large, max is {limits.delay_ms_max}",
        )
    properties[keys_of.TIMER_DELIVER_MS] = str(max(deliver_ms, 0))


def _add_group(properties: dict[str, str], system: pb.SystemProperties) -> None:
    if system.message_group:
        check_message_group(system.message_group)
        properties[keys_of.SHARDING_KEY] = system.message_group
    if system.HasField("lite_topic"):
        raise ProxyRefusal(
            pb.ILLEGAL_LITE_TOPIC, "this server has no lite topics; send without a lite topic"
        )


def _check_text(properties: dict[str, str]) -> None:
    """Raise ProxyRefusal if message id, trace context or born host has a separator of properties, U+0001 or U+0002."""
    for name in (keys_of.UNIQ_KEY, TRACE_CONTEXT, BORN_HOST):
        value = properties.get(name, "")
        if "\x01" in value or "\x02" in value:
            raise ProxyRefusal(
                pb.ILLEGAL_MESSAGE_ID if name == keys_of.UNIQ_KEY else pb.BAD_REQUEST,
                f"{name} cannot contain control character",
            )


def _check_digest(system: pb.SystemProperties, body: bytes) -> None:
    """Raise ProxyRefusal (MESSAGE_CORRUPTED) if the body does not match the digest that the message names, if any.

    Clients write CRC32 in hexadecimal with and without leading zeros, or in decimal. The digest of a compressed body is
    not checked, because clients compute it before or after compression; nor is one of an unknown kind.
    """
    if not system.HasField("body_digest") or system.body_encoding == pb.GZIP:
        return
    given = system.body_digest.checksum.upper()
    match system.body_digest.type:
        case pb.CRC32:
            crc = zlib.crc32(body)
            known = {f"{crc:X}", f"{crc:08X}", str(crc)}
        case pb.MD5:
            known = {hashlib.md5(body, usedforsecurity=False).hexdigest().upper()}
        case pb.SHA1:
            known = {hashlib.sha1(body, usedforsecurity=False).hexdigest().upper()}
        case _:
            return
    if given and given not in known:
        raise ProxyRefusal(
            pb.MESSAGE_CORRUPTED,
            f"the body of message {system.message_id} does not have its digest {system.body_digest.checksum[:80]}",
        )
