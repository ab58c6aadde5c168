"""Settings of a broker for filters, pop and cold reads: RocketMQ's keys."""

from enum import Enum

from cometmq.broker.settings.group_keys import GroupKeys
from cometmq.model.frozen import dataclass
from cometmq.model.settings import setting


class RequestMode(Enum):
    """The way consumers get messages of a topic if the broker assigns the queues: PULL or POP."""

    PULL = "PULL"
    POP = "POP"


@dataclass(frozen=True, slots=True)
class ConsumeKeys(GroupKeys):
    """Settings of filters, pop and cold reads: keys of RocketMQ 5.3.3.

    Attributes:
        is_sql92: consumers may filter by SQL92; differs: off in RocketMQ.
        is_retry_filtered: retried messages are filtered by the group's SQL92 subscription to their original topic.
        revive_queues: number of queues of the topic in which pop stores its check points.
        retry_share: per cent of pops, not in order, that read the retry topic first; others read it last, if they find too few.
        is_retry_topic_v2: retry topics of pop are `%RETRY%group+topic`, which is never ambiguous.
        is_retry_topic_v1_read: with `enableRetryTopicV2`, retry topics of the old form are read, too.
        polling_max: about the most pops that wait for one group and topic.
        polling_total_max: most pops that wait in total.
        request_mode: whether a group pulls or pops if nothing else was set.
        share_queues: of how many other members a member also pops the queues; -1: of all.
        is_shared_by_broker: the broker assigns queues to members; otherwise each member gets all queues.
        is_cold_limited: groups that read much from the disk are slowed down.
        cold_group_max: most bytes read from the disk in 5 s by a group without a threshold of its own.
        cold_max: most bytes read from the disk in 5 s by all groups together.
    """

    is_sql92: bool = setting(default=True, key="enablePropertyFilter")
    is_retry_filtered: bool = setting(default=False, key="filterSupportRetry")
    revive_queues: int = setting(8, key="reviveQueueNum", least=1, most=256)
    retry_share: int = setting(20, key="popFromRetryProbability", least=0, most=100)
    is_retry_topic_v2: bool = setting(default=False, key="enableRetryTopicV2")
    is_retry_topic_v1_read: bool = setting(
        default=True, key="retrieveMessageFromPopRetryTopicV1"
    )
    polling_max: int = setting(1_024, key="popPollingSize", least=1)
    polling_total_max: int = setting(100_000, key="maxPopPollingSize", least=1)
    request_mode: RequestMode = setting(RequestMode.PULL, key="defaultMessageRequestMode")
    share_queues: int = setting(-1, key="defaultPopShareQueueNum", least=-1)
    is_shared_by_broker: bool = setting(default=True, key="serverLoadBalancerEnable")
    is_cold_limited: bool = setting(
        default=False, key="coldDataFlowControlEnable", is_remote=True
    )
    cold_group_max: int = setting(3 << 20, key="cgColdReadThreshold", least=0, is_remote=True)
    cold_max: int = setting(100 << 20, key="globalColdReadThreshold", least=0, is_remote=True)
