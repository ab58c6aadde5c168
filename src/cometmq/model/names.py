"""Names of topics and groups: which are legal, which the system keeps, which derive from others.

Rules follow TopicValidator and Validators of RocketMQ 5.3.3 (protocol: "Names, system topics and
groups"). They are the guard against a topic called `../x`, too: a name that passes is a safe
directory name.
"""

import re
from collections.abc import Container

from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
LMQ_PREFIX = "%LMQ%"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
# Check points and acknowledgements of pop; the cluster's name follows.
REVIVE_LOG_PREFIX = "rmq_sys_REVIVE_LOG_"
# Traces of clients with AccessChannel.CLOUD; the region follows (TraceConstants.TRACE_TOPIC_PREFIX).
TRACE_DATA_PREFIX = "rmq_sys_TRACE_DATA_"

DEFAULT_TOPIC = "TBW102"  # New topics inherit from it (AUTO_CREATE_TOPIC_KEY_TOPIC).
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC = "BenchmarkTest"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
CHECKPOINT_TOPIC = "CHECKPOINT_TOPIC"
WHEEL_TIMER_TOPIC = "rmq_sys_wheel_timer"
REPLY_TOPIC_SUFFIX = "REPLY_TOPIC"

# Client and broker refuse longer topics; a retry topic adds its prefix to a group of up to 255.
TOPIC_LENGTH_MAX = 127
RETRY_TOPIC_LENGTH_MAX = 255
GROUP_LENGTH_MAX = 255
# What a file system takes as the name of a directory, which each topic with a message has.
NAME_BYTES_MAX = 255

SYSTEM_TOPICS = frozenset(
    (
        DEFAULT_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        TRACE_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        CHECKPOINT_TOPIC,
    )
)
# TopicValidator.NOT_ALLOWED_SEND_TOPIC_SET; see `is_written_by_brokers`.
_NOT_SENDABLE_TOPICS = frozenset(
    (
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    )
)

TOOLS_GROUP = "TOOLS_CONSUMER"
SELF_TEST_CONSUMER_GROUP = "SELF_TEST_C_GROUP"
INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"
TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"
# Groups that every broker has from its first start (MixAll, SubscriptionGroupManager.init).
SYSTEM_GROUPS = (
    TOOLS_GROUP,
    "FILTERSRV_CONSUMER",
    SELF_TEST_CONSUMER_GROUP,
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    TRANSACTION_GROUP,
)

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")


def retry_topic(group: str) -> str:
    """The topic in which messages of `group` wait for their next try."""
    return RETRY_PREFIX + group


def pop_retry_topic(topic: str, group: str, *, is_v2: bool = False) -> str:
    """The topic in which popped messages of `topic` wait for the next try of `group` (KeyBuilder)."""
    return f"{RETRY_PREFIX}{group}{'+' if is_v2 else '_'}{topic}"


def pop_origin_topic(topic: str, group: str) -> str:
    """The topic that a retry topic of pop belongs to; any other topic is its own."""
    for mark in "+_":
        prefix = f"{RETRY_PREFIX}{group}{mark}"
        if topic.startswith(prefix):
            return topic[len(prefix) :]
    return topic


def dead_letter_topic(group: str) -> str:
    """The topic that takes what `group` could not consume."""
    return DLQ_PREFIX + group


def group_of_derived(topic: str, topics: Container[str]) -> str | None:
    """Return the group of a retry or dead-letter topic; None of any other topic.

    Args:
        topic: The topic.
        topics: The topics that are there: the retry topic of a pop ends with the name of one.
    """
    if not is_derived_topic(topic):
        return None
    name = topic.removeprefix(RETRY_PREFIX).removeprefix(DLQ_PREFIX)
    for at, mark in enumerate(name):
        if at and mark in "+_" and name[at + 1 :] in topics and is_retry_topic(topic):
            return name[:at]
    return name


def is_retry_topic(topic: str) -> bool:
    """Whether a topic is the retry topic of some group."""
    return topic.startswith(RETRY_PREFIX)


def is_derived_topic(topic: str) -> bool:
    """Whether a topic is one that the system makes for a group: for retries, or dead letters."""
    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def is_system_topic(topic: str) -> bool:
    """Whether the system owns this topic, so that users neither create nor delete it."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_written_by_brokers(topic: str) -> bool:
    """Whether brokers alone write messages to a topic, because they act on what they read there.

    Differs: RocketMQ lets clients send to each topic that begins with `rmq_sys_`. Clients have a reason only for
    traces of AccessChannel.CLOUD.
    """
    return topic in _NOT_SENDABLE_TOPICS or (
        topic.startswith(SYSTEM_TOPIC_PREFIX) and not topic.startswith(TRACE_DATA_PREFIX)
    )


def is_group_of_brokers(group: str) -> bool:
    """Whether the offsets of a group are the broker's own notes of its progress."""
    return group.startswith(SYSTEM_GROUP_PREFIX)


def is_system_group(group: str) -> bool:
    """Whether the system owns this consumer group."""
    return group in SYSTEM_GROUPS or is_group_of_brokers(group)


def length_fault(topic: str) -> str | None:
    """The reason why a topic's name is too long for a directory; None where it is not."""
    size = len(topic.encode(errors="replace"))
    if size <= NAME_BYTES_MAX:
        return None
    return (
        f"the topic {topic[:NAME_BYTES_MAX]!r} is not made: its name has {size} bytes, and {NAME_BYTES_MAX} "
        "is the most; take a shorter name for the group (or the topic) that it derives from"
    )


def topic_fault(topic: str, *, is_any_length: bool = False) -> str | None:
    """The reason why a name is no legal topic name; None where it is one."""
    if not topic or topic.isspace():
        return "The specified topic is blank. Name a topic."
    limit = (
        RETRY_TOPIC_LENGTH_MAX
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
        else TOPIC_LENGTH_MAX
    )
    if len(topic) > limit and not is_any_length:
        return f"The specified topic is longer than {limit} characters: {len(topic)}."
    if _LEGAL.fullmatch(topic) is None:
        return f"The specified topic {topic!r} contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    return None


def group_fault(group: str) -> str | None:
    """The reason why a name is no legal group name; None where it is one."""
    if not group or group.isspace():
        return "The specified group is blank. Name a group."
    if len(group) > GROUP_LENGTH_MAX:
        return (
            f"The specified group is longer than {GROUP_LENGTH_MAX} characters: {len(group)}."
        )
    if _LEGAL.fullmatch(group) is None:
        return f"The specified group {group!r} contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    return None


def check_topic(
    topic: str,
    *,
    code: int = ResponseCode.INVALID_PARAMETER,
    is_any_length: bool = False,
) -> None:
    """Refuse an illegal topic name.

    Raises:
        RequestError: with `code` and the reason.
    """
    fault = topic_fault(topic, is_any_length=is_any_length)
    if fault is not None:
        raise RequestError(code, fault)


def check_sendable(topic: str) -> None:
    """Refuse a topic to which brokers alone write.

    Raises:
        RequestError: NO_PERMISSION.
    """
    if is_written_by_brokers(topic):
        raise RequestError(
            ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden."
        )


def check_group_of_clients(group: str) -> None:
    """Refuse a group whose offsets only the broker may change.

    Raises:
        RequestError: NO_PERMISSION.
    """
    if is_group_of_brokers(group):
        raise RequestError(
            ResponseCode.NO_PERMISSION,
            f"the offsets of group {group} are notes of the broker itself; use another group",
        )


def check_length(topic: str, *, code: int = ResponseCode.MESSAGE_ILLEGAL) -> None:
    """Refuse a topic whose name is too long for a directory.

    Raises:
        RequestError: with `code` and the reason.
    """
    fault = length_fault(topic)
    if fault is not None:
        raise RequestError(code, f"MESSAGE_ILLEGAL: {fault}")


def check_group(group: str, *, code: int = ResponseCode.INVALID_PARAMETER) -> None:
    """Refuse an illegal group name.

    Raises:
        RequestError: with `code` and the reason.
    """
    fault = group_fault(group)
    if fault is not None:
        raise RequestError(code, fault)
