"""Headers of requests by consoles and mqadmin, mostly about groups and clients: 208 to 353."""

from dataclasses import field

from cometmq.codec.fields import wire
from cometmq.model.frozen import dataclass

# Field in CometMQ's answer to GET_BROKER_CONFIG 26: keys changed over the wire, separated by commas.
CHANGED_KEYS = "changedKeys"
# Likewise for keys with a value other than the default (from the file, the environment, a flag or a change).
SET_KEYS = "setKeys"


@dataclass(frozen=True, slots=True)
class ConsumeStatsRequest:
    """Header to query the progress of a group, GET_CONSUME_STATS 208; `topic_list` is separated by semicolons."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


@dataclass(frozen=True, slots=True)
class AllConsumeStatsRequest:
    """Header to query the progress of all groups, of ordered topics only or of all, GET_BROKER_CONSUME_STATS 317."""

    is_order: bool = field(default=False, metadata=wire("isOrder"))


@dataclass(frozen=True, slots=True)
class BrokerStatsRequest:
    """Header to query a counter of BrokerStatsManager by name and key, VIEW_BROKER_STATS_DATA 315."""

    stats_name: str
    stats_key: str


@dataclass(frozen=True, slots=True)
class TopicGroupRequest:
    """Header with a topic and a group: QUERY_CONSUME_TIME_SPAN 303, QUERY_SUBSCRIPTION_BY_CONSUMER 345."""

    topic: str
    group: str


@dataclass(frozen=True, slots=True)
class ResetOffsetRequest(TopicGroupRequest):
    """Header to reset the offsets of a group, INVOKE_BROKER_TO_RESET_OFFSET 222.

    Attributes:
        topic: Topic of the queues.
        group: Group whose offsets are reset.
        timestamp: Reset to the first message stored at or after this time (ms since 1970); to the end if there is none, or for -1.
        queue_id: Queue to reset; -1 for all.
        offset: Queue offset to reset to instead; used only with a queue, and if not -1.
        is_force: If False, a broker that lets consumers reset themselves moves known offsets only backward; others ignore it.
    """

    timestamp: int = -1
    queue_id: int = -1
    offset: int | None = None
    is_force: bool = field(default=True, metadata=wire("isForce"))


@dataclass(frozen=True, slots=True)
class ClientStatusRequest(TopicGroupRequest):
    """Header to query offsets in the memory of a group's clients, INVOKE_BROKER_TO_GET_CONSUMER_STATUS 223."""

    client_addr: str | None = None


@dataclass(frozen=True, slots=True)
class RunningRequest:
    """Header to query the state of a running consumer, GET_CONSUMER_RUNNING_INFO 307."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@dataclass(frozen=True, slots=True)
class DirectRequest:
    """Header to deliver a message directly, CONSUME_MESSAGE_DIRECTLY 309; the broker adds the record, its own name and flags."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None


@dataclass(frozen=True, slots=True)
class CorrectionOffsetRequest:
    """Header to query, by queue, the least offset of a topic's groups but `filter_groups`, QUERY_CORRECTION_OFFSET 308.

    Queues in which `compare_group` has a smaller one are marked in the answer. `filter_groups` is separated by commas.
    """

    compare_group: str
    topic: str
    filter_groups: str | None = None


@dataclass(frozen=True, slots=True)
class CloneOffsetsRequest:
    """Header to copy a group's offsets in one or all topics to another group, CLONE_GROUP_OFFSET 314; offline: also unsubscribed ones."""

    src_group: str
    dest_group: str
    topic: str | None = None
    is_offline: bool = field(default=False, metadata=wire("offline"))


@dataclass(frozen=True, slots=True)
class QueueEntriesRequest:
    """Header to query at most `count` queue entries from queue offset `index` on, QUERY_CONSUME_QUEUE 321."""

    topic: str
    queue_id: int
    index: int
    count: int
    consumer_group: str | None = None


@dataclass(frozen=True, slots=True)
class ForbiddenRequest:
    """Header to forbid or allow a group a topic, or (`readable` None) only ask, UPDATE_AND_GET_GROUP_FORBIDDEN 353."""

    group: str
    topic: str
    readable: bool | None = None
