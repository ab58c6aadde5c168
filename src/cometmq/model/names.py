"""Names of topics and groups: legal names, names reserved for the system, and derived names.

The rules mostly follow TopicValidator and Validators of RocketMQ 5.3.3 (protocol: "Names, system topics and groups").
They also prevent topics such as `../x`: no legal name has a dot or a slash.
"""

import re
from collections.abc import Container

from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.text import in_quotes

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
LMQ_PREFIX = "%LMQ%"
# Our record of the dead letters of a group that were replayed; followed by the group.
REPLAY_LEDGER_PREFIX = "DLQ_REPLAYED_"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
# Check points and acknowledgements of pop; followed by the cluster's name.
REVIVE_LOG_PREFIX = "rmq_sys_REVIVE_LOG_"
# Traces of clients with AccessChannel.CLOUD; followed by the region (TraceConstants.TRACE_TOPIC_PREFIX).
TRACE_DATA_PREFIX = "rmq_sys_TRACE_DATA_"

DEFAULT_TOPIC = "TBW102"  # Template of new topics (AUTO_CREATE_TOPIC_KEY_TOPIC).
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
# Namespace of the key-value configuration with "broker-a:4;broker-b:4" by topic (NamesrvUtil.NAMESPACE_ORDER_TOPIC_CONFIG).
ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"

# Clients and brokers reject longer topics; a retry topic adds its prefix to a group of up to 255.
TOPIC_LENGTH_MAX = 127
RETRY_TOPIC_LENGTH_MAX = 255
GROUP_LENGTH_MAX = 255
# Maximum length of a directory name; each topic with messages has a directory.
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
# Groups that every broker has from the start (MixAll, SubscriptionGroupManager.init).
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
    """Return the name of a group's retry topic, "%RETRY%group"; for popped messages see `pop_retry_topic`."""
    return RETRY_PREFIX + group


def pop_retry_topic(topic: str, group: str, *, is_v2: bool = False) -> str:
    """Return the retry topic of `group` for popped messages of `topic`: "%RETRY%group_topic", in v2 with "+" (KeyBuilder)."""
    return f"{RETRY_PREFIX}{group}{'+' if is_v2 else '_'}{topic}"


def pop_origin_topic(topic: str, group: str) -> str:
    """Return what follows "%RETRY%group_" or "%RETRY%group+", the original topic (pop); other names unchanged."""
    for mark in "+_":
        prefix = f"{RETRY_PREFIX}{group}{mark}"
        if topic.startswith(prefix):
            return topic[len(prefix) :]
    return topic


def dead_letter_topic(group: str) -> str:
    """Return the name of the topic for the dead letters of `group`, "%DLQ%group"."""
    return DLQ_PREFIX + group


def group_of_derived(topic: str, topics: Container[str]) -> str | None:
    """Return the group of a retry or dead-letter topic, or None for any other topic.

    `topics` are the existing topics. If a retry topic is "%RETRY%group_topic" or "%RETRY%group+topic" with one of them,
    it is taken for a pop retry topic; otherwise all that follows the prefix is the group.
    """
    if not is_derived_topic(topic):
        return None
    name = topic.removeprefix(RETRY_PREFIX).removeprefix(DLQ_PREFIX)
    for at, mark in enumerate(name):
        if at and mark in "+_" and name[at + 1 :] in topics and is_retry_topic(topic):
            return name[:at]
    return name


def is_retry_topic(topic: str) -> bool:
    """Return whether a topic is the retry topic of a group, also for pop: its name starts with %RETRY%."""
    return topic.startswith(RETRY_PREFIX)


def is_derived_topic(topic: str) -> bool:
    """Return whether a topic's name starts with %RETRY% or %DLQ%, so that it is derived from a group's name."""
    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def is_system_topic(topic: str) -> bool:
    """Return whether a topic's name is reserved for the system."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_written_by_brokers(topic: str) -> bool:
    """Return whether only brokers may write to a topic, such as SCHEDULE_TOPIC_XXXX.

    Differs: RocketMQ lets clients send to all topics `rmq_sys_*`; here only to `rmq_sys_TRACE_DATA_*`.
    """
    return topic in _NOT_SENDABLE_TOPICS or (
        topic.startswith(SYSTEM_TOPIC_PREFIX) and not topic.startswith(TRACE_DATA_PREFIX)
    )


def is_group_of_brokers(group: str) -> bool:
    """Return whether a group is one of the brokers' own: its name starts with `CID_RMQ_SYS_`.

    A broker uses the offsets of such groups for its work on internal topics, such as that of half messages.
    """
    return group.startswith(SYSTEM_GROUP_PREFIX)


def is_system_group(group: str) -> bool:
    """Return whether a consumer group is reserved for the system."""
    return group in SYSTEM_GROUPS or is_group_of_brokers(group)


def length_fault(topic: str) -> str | None:
    """Return why a topic's name is too long for a directory (more than 255 bytes), or None if it is not."""
    size = len(topic.encode(errors="replace"))
    if size <= NAME_BYTES_MAX:
        return None
    return (
        f"topic {in_quotes(topic)} cannot be created: its name has {size} bytes, and at most {NAME_BYTES_MAX} "
        "are allowed; use a shorter name for the group (or topic) that it derives from"
    )


def topic_fault(topic: str, *, is_any_length: bool = False) -> str | None:
    """Return why a topic name is illegal: blank, too long (unless `is_any_length`), or illegal characters; None if legal."""
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
        return f"The specified topic {in_quotes(topic)} contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    return None


def group_fault(group: str) -> str | None:
    """Return why a group name is illegal: blank, above 255 characters, or illegal characters; None if it is legal."""
    if not group or group.isspace():
        return "The specified group is blank. Name a group."
    if len(group) > GROUP_LENGTH_MAX:
        return (
            f"The specified group is longer than {GROUP_LENGTH_MAX} characters: {len(group)}."
        )
    if _LEGAL.fullmatch(group) is None:
        return f"The specified group {in_quotes(group)} contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    return None


def check_topic(
    topic: str,
    *,
    code: int = ResponseCode.INVALID_PARAMETER,
    is_any_length: bool = False,
) -> None:
    """Raise RequestError with the given response code if a topic name is illegal (see `topic_fault`)."""
    fault = topic_fault(topic, is_any_length=is_any_length)
    if fault is not None:
        raise RequestError(code, fault)


def check_sendable(topic: str) -> None:
    """Raise RequestError (NO_PERMISSION) if only brokers may write to a topic."""
    if is_written_by_brokers(topic):
        raise RequestError(
            ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden."
        )


def check_group_of_clients(group: str) -> None:
    """Raise RequestError (NO_PERMISSION) if a group is one of the brokers' own (CID_RMQ_SYS_...)."""
    if is_group_of_brokers(group):
        raise RequestError(
            ResponseCode.NO_PERMISSION,
            f"the broker uses group {group} for its own offsets; use another group",
        )


def check_length(topic: str, *, code: int = ResponseCode.MESSAGE_ILLEGAL) -> None:
    """Raise RequestError with the given response code if a topic's name has more than 255 bytes, a directory's limit."""
    fault = length_fault(topic)
    if fault is not None:
        raise RequestError(code, f"MESSAGE_ILLEGAL: {fault}")


def check_group(group: str, *, code: int = ResponseCode.INVALID_PARAMETER) -> None:
    """Raise RequestError with the given response code if a group name is illegal."""
    fault = group_fault(group)
    if fault is not None:
        raise RequestError(code, fault)
