"""The configuration of a topic: its queues, its permissions, and its attributes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cometmq.model.flags import PERM_READ_WRITE


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """Settings of a topic on one broker (TopicConfig of RocketMQ 5.3.3).

    Attributes:
        name: Name of the topic.
        read_queues: Number of queues that consumers see.
        write_queues: Number of queues that producers see.
        perm: Bits of `model.flags.PERM_*`.
        filter_type: SINGLE_TAG or MULTI_TAG.
        sys_flag: Unit bits, `model.flags.TOPIC_*`.
        ordered: RocketMQ's `order`: whether the topic's messages are ordered across brokers.
        attributes: queue.type, cleanup.policy and so on (5.x).
    """

    name: str
    read_queues: int = 8
    write_queues: int = 8
    perm: int = PERM_READ_WRITE
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    ordered: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def queue_count(self) -> int:
        """Number of queues: the larger of the counts of read and write queues."""
        return max(self.read_queues, self.write_queues)

    @property
    def shared_queues(self) -> int:
        """Number of queues that are both written and read, or of all queues if that is 0.

        A broker usually chooses one of these for a retry, and for a message that names no queue (queue id -1).
        """
        return min(self.read_queues, self.write_queues) or self.queue_count
