"""Checks of names, properties and times in calls, with the codes and texts of RocketMQ's proxy.

Source: GrpcValidator, Validators and the activities of RocketMQ 5.3.x. The texts of `model.names`, which are those of
its brokers and clients, differ.
"""

import re
from collections.abc import Mapping, Sequence

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from cometmq.model import properties as keys_of
from cometmq.model.names import is_system_group, is_system_topic
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.statuses import ProxyRefusal

TOPIC_LENGTH_MAX = 127
GROUP_LENGTH_MAX = 255
PROPERTIES_MAX = 128
PROPERTIES_SIZE_MAX = 16_384
MESSAGE_GROUP_SIZE_MAX = 64
RECOVERY_SECONDS_MAX = 3_600
INVISIBLE_MS_MIN, INVISIBLE_MS_MAX = 10_000, 43_200_000
CLIENT_ID_LENGTH_MAX = 255
# The latest second that a Timestamp may have (9999-12-31), and the most seconds of a Duration.
_SECONDS_MAX = 253_402_300_799
_NANOS_MAX = 999_999_999

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Properties that a client must not set as properties of the user: those of RocketMQ's MessageConst.STRING_HASH_SET, and
# two that its proxy forgets, through which a client could store a message elsewhere or end another's transaction.
OF_THE_SYSTEM = frozenset(
    (
        keys_of.TRACE_ON, keys_of.MSG_REGION, keys_of.KEYS, keys_of.TAGS, keys_of.WAIT, keys_of.DELAY,
        keys_of.RETRY_TOPIC, keys_of.REAL_TOPIC, keys_of.REAL_QID, keys_of.TRAN_MSG,
        keys_of.PRODUCER_GROUP, keys_of.MIN_OFFSET, keys_of.MAX_OFFSET, keys_of.BUYER_ID,
        keys_of.ORIGIN_MESSAGE_ID, "TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG",
        keys_of.RECONSUME_TIME, keys_of.UNIQ_KEY, keys_of.MAX_RECONSUME_TIMES,
        keys_of.CONSUME_START_TIME, keys_of.POP_CK, "POP_CK_OFFSET", keys_of.FIRST_POP_TIME,
        keys_of.TRAN_PREPARED_QUEUE_OFFSET, "DUP_INFO", "EXTEND_UNIQ_INFO", "INSTANCE_ID",
        keys_of.CORRELATION_ID, keys_of.REPLY_TO_CLIENT, keys_of.TTL, keys_of.REPLY_ARRIVE_TIME,
        keys_of.PUSH_REPLY_TIME, keys_of.CLUSTER, keys_of.MSG_TYPE, "INNER_MULTI_QUEUE_OFFSET",
        keys_of.TIMER_DELAY_MS, keys_of.TIMER_DELAY_SEC, keys_of.TIMER_DELIVER_MS,
        keys_of.TIMER_ENQUEUE_MS, keys_of.TIMER_DEQUEUE_MS, keys_of.TIMER_ROLL_TIMES,
        keys_of.TIMER_OUT_MS, keys_of.TIMER_DEL_UNIQKEY, "TIMER_DELAY_LEVEL", "__BORNHOST",
        keys_of.BORN_TIMESTAMP, keys_of.DLQ_ORIGIN_TOPIC, "DLQ_ORIGIN_MESSAGE_ID", "__CRC32#",
        "INNER_MULTI_DISPATCH", keys_of.TRANSACTION_ID,
    )
)  # fmt: skip


def topic_name(topic: pb.Resource) -> str:
    """Return the name of a topic as the broker knows it; raise ProxyRefusal (ILLEGAL_TOPIC) if it is not allowed."""
    name = _legal_name(topic.name, pb.ILLEGAL_TOPIC, "The specified topic", TOPIC_LENGTH_MAX)
    if is_system_topic(name):
        raise ProxyRefusal(pb.ILLEGAL_TOPIC, "cannot access system topic")
    return _in_namespace(topic.resource_namespace, name, pb.ILLEGAL_TOPIC)


def group_name(group: pb.Resource) -> str:
    """Return the name of a group as the broker knows it; raise ProxyRefusal (ILLEGAL_CONSUMER_GROUP) if not allowed."""
    code = pb.ILLEGAL_CONSUMER_GROUP
    name = _legal_name(group.name, code, "the specified group", GROUP_LENGTH_MAX)
    if is_system_group(name):
        raise ProxyRefusal(code, "cannot use system consumer group")
    return _in_namespace(group.resource_namespace, name, code)


def _legal_name(name: str, code: int, subject: str, length_max: int) -> str:
    """Return the name if it is legal, or raise ProxyRefusal, whose text begins with `subject`."""
    if not name or name.isspace():
        raise ProxyRefusal(code, f"{subject} is blank")
    if len(name) > length_max:
        kind = subject.rpartition(" ")[2]
        raise ProxyRefusal(code, f"{subject} is longer than {kind} max length {length_max}.")
    if not _LEGAL.fullmatch(name):
        raise ProxyRefusal(
            code,
            f"{subject}[{_shown(name)}] contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        )
    return name


def _in_namespace(namespace: str, name: str, code: int) -> str:
    if not namespace:
        return name
    full = f"{namespace}%{name}"
    if not _LEGAL.fullmatch(namespace) or len(full) > GROUP_LENGTH_MAX:
        raise ProxyRefusal(
            code,
            f"the resource namespace [{_shown(namespace)}] contains illegal characters or is too long",
        )
    return full


def without_namespace(name: str, namespace: str) -> str:
    """Return the name of a topic without the prefix of a namespace, which may be empty."""
    return name.removeprefix(f"{namespace}%") if namespace else name


def _check_not_blank(text: str, code: int, subject: str) -> None:
    if not text or text.isspace():
        raise ProxyRefusal(code, f"{subject} cannot be the char sequence of whitespace")


def _check_plain(text: str, code: int, subject: str) -> None:
    if _CONTROL.search(text):
        raise ProxyRefusal(code, f"{subject} cannot contain control character")


def check_tag(tag: str) -> None:
    """Raise ProxyRefusal (ILLEGAL_MESSAGE_TAG) if a tag is blank or has a "|" or a control character."""
    _check_not_blank(tag, pb.ILLEGAL_MESSAGE_TAG, "tag")
    if "|" in tag:
        raise ProxyRefusal(pb.ILLEGAL_MESSAGE_TAG, "tag cannot contain '|'")
    _check_plain(tag, pb.ILLEGAL_MESSAGE_TAG, "tag")


def check_keys(keys: Sequence[str]) -> None:
    """Raise ProxyRefusal (ILLEGAL_MESSAGE_KEY) if one of the keys is blank or has a control character."""
    for key in keys:
        _check_not_blank(key, pb.ILLEGAL_MESSAGE_KEY, "key")
        _check_plain(key, pb.ILLEGAL_MESSAGE_KEY, "key")


def check_message_group(group: str) -> None:
    """Raise ProxyRefusal (ILLEGAL_MESSAGE_GROUP) if a group is blank, has over 63 bytes, or has a control character."""
    _check_not_blank(group, pb.ILLEGAL_MESSAGE_GROUP, "message group")
    if len(group.encode()) >= MESSAGE_GROUP_SIZE_MAX:
        raise ProxyRefusal(
            pb.ILLEGAL_MESSAGE_GROUP,
            f"message group exceed the max size {MESSAGE_GROUP_SIZE_MAX}",
        )
    _check_plain(group, pb.ILLEGAL_MESSAGE_GROUP, "message group")


def check_properties(properties: Mapping[str, str]) -> int:
    """Return the size of a message's user properties in bytes: names and values in UTF-8.

    Raises:
        ProxyRefusal: ILLEGAL_MESSAGE_PROPERTY_KEY if a name is empty or reserved, or a name or value has a control
            character; MESSAGE_PROPERTIES_TOO_LARGE if there are more than 128.
    """
    if len(properties) > PROPERTIES_MAX:
        raise ProxyRefusal(
            pb.MESSAGE_PROPERTIES_TOO_LARGE,
            f"too many user properties, max is {PROPERTIES_MAX}",
        )
    size = 0
    for name, value in properties.items():
        if name in OF_THE_SYSTEM:
            raise ProxyRefusal(
                pb.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property is used by system: {name}"
            )
        if not name:
            raise ProxyRefusal(
                pb.ILLEGAL_MESSAGE_PROPERTY_KEY, "the key of property cannot be empty"
            )
        _check_plain(name, pb.ILLEGAL_MESSAGE_PROPERTY_KEY, "the key of property")
        _check_plain(value, pb.ILLEGAL_MESSAGE_PROPERTY_KEY, "the value of property")
        size += len(name.encode()) + len(value.encode())
    return size


def check_size(size: int) -> None:
    """Raise ProxyRefusal (MESSAGE_PROPERTIES_TOO_LARGE) if properties, tag and keys have more than 16 KiB together."""
    if size > PROPERTIES_SIZE_MAX:
        raise ProxyRefusal(
            pb.MESSAGE_PROPERTIES_TOO_LARGE,
            f"the total size of user property is too large, max is {PROPERTIES_SIZE_MAX}",
        )


def check_invisible(invisible_ms: int, least_ms: int) -> None:
    """Raise ProxyRefusal (ILLEGAL_INVISIBLE_TIME) unless an invisible time is from `least_ms` to 12 hours."""
    if invisible_ms < least_ms:
        raise ProxyRefusal(
            pb.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime is too small. min is {least_ms}"
        )
    if invisible_ms > INVISIBLE_MS_MAX:
        raise ProxyRefusal(
            pb.ILLEGAL_INVISIBLE_TIME,
            f"the invisibleTime is too large. max is {INVISIBLE_MS_MAX}",
        )


def milliseconds(time: Timestamp | Duration) -> int:
    """Return a time or a duration in ms, rounded down; raise ProxyRefusal (BAD_REQUEST) if it is invalid."""
    if not (abs(time.seconds) <= _SECONDS_MAX and 0 <= time.nanos <= _NANOS_MAX):
        raise ProxyRefusal(
            pb.BAD_REQUEST,
            f"{time.seconds} seconds and {time.nanos} nanos are no valid time; nanos are 0 to {_NANOS_MAX}",
        )
    return time.seconds * 1000 + time.nanos // 1_000_000


def _shown(name: str) -> str:
    return name[:128]
