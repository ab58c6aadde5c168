"""Headers of requests about topics and groups, such as 17, 207, 215, 343, 351, 352."""

from dataclasses import field

from cometmq.codec.fields import wire
from cometmq.model.flags import PERM_READ_WRITE
from cometmq.model.frozen import dataclass
from cometmq.model.names import DEFAULT_TOPIC


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Header to create or change a topic, UPDATE_AND_CREATE_TOPIC 17."""

    topic: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int = PERM_READ_WRITE
    default_topic: str = DEFAULT_TOPIC
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int | None = None
    order: bool = False
    attributes: str | None = None
    force: bool | None = None


@dataclass(frozen=True, slots=True)
class TopicRequest:
    """Header with only a topic, of DELETE_TOPIC_IN_BROKER 215, GET_TOPIC_CONFIG 351 and other requests."""

    topic: str


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """Header to query the topics in which a group has offsets, QUERY_TOPICS_BY_CONSUMER 343, or its settings, 352."""

    group: str


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Header to delete a group, DELETE_SUBSCRIPTIONGROUP 207, and its offsets and retry topics if `clean_offset` is set."""

    group_name: str
    clean_offset: bool = field(default=False, metadata=wire("cleanOffset"))
