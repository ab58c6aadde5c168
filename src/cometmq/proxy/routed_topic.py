"""A topic as the methods of the proxy see it: its queues on each broker, and the types of messages that it accepts."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cometmq.model.flags import is_readable, is_writable
from cometmq.model.names import is_derived_topic
from cometmq.model.route import QueueData
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.statuses import ProxyRefusal

# Attribute of a topic with the type of its messages (TopicAttributes.TOPIC_MESSAGE_TYPE_ATTRIBUTE).
MESSAGE_TYPE = "message.type"
_MIXED = "MIXED"
_TYPES = {
    "NORMAL": pb.NORMAL, "FIFO": pb.FIFO, "DELAY": pb.DELAY, "TRANSACTION": pb.TRANSACTION,
    "LITE": pb.LITE, "PRIORITY": pb.PRIORITY,
}  # fmt: skip


class RoutedTopic(NamedTuple):
    """A topic and its queues.

    Attributes:
        name: Its name.
        brokers: Its queues on each broker that has a master, with the permissions that are in force there.
        types: The types of messages that it accepts.
        type_name: The name of the type in its settings, for texts.
    """

    name: str
    brokers: Sequence[QueueData]
    types: Sequence[pb.MessageType]
    type_name: str

    @property
    def is_readable(self) -> bool:
        """Whether the topic has a queue to receive from."""
        return any(is_readable(each.perm) and each.read_queues for each in self.brokers)

    @property
    def is_writable(self) -> bool:
        """Whether the topic has a queue to send to."""
        return any(is_writable(each.perm) and each.write_queues for each in self.brokers)

    def check_type(self, kind: pb.MessageType) -> None:
        """Raise ProxyRefusal (MESSAGE_PROPERTY_CONFLICT_WITH_TYPE) if the topic does not accept messages of a type."""
        if kind not in self.types:
            raise ProxyRefusal(
                pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                f"TopicMessageType validate failed, the expected type is {self.type_name}, but actual type is "
                f"{pb.MessageType.Name(kind)}",
            )

    def check_queue(self, broker_name: str, queue_id: int) -> None:
        """Raise ProxyRefusal (BAD_REQUEST) if the topic has no such queue at a broker."""
        count = max(
            (
                max(each.read_queues, each.write_queues)
                for each in self.brokers
                if each.broker_name == broker_name
            ),
            default=0,
        )
        if not 0 <= queue_id < count:
            raise ProxyRefusal(
                pb.BAD_REQUEST,
                f"queue {queue_id} of topic {self.name} does not exist; it has {count}",
            )


def routed_topic(
    name: str, brokers: Sequence[QueueData], attributes: Mapping[str, str]
) -> RoutedTopic:
    """Return a topic; its types are those of its attribute `message.type`, NORMAL without it.

    NORMAL, FIFO, DELAY and TRANSACTION for MIXED, and for derived topics such as retry topics.
    """
    type_name = attributes.get(MESSAGE_TYPE, "NORMAL").upper()
    types = [_TYPES.get(type_name, pb.MESSAGE_TYPE_UNSPECIFIED)]
    if type_name == _MIXED or is_derived_topic(name):
        types = [pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION]
    return RoutedTopic(name, brokers, types, type_name)


def no_route(name: str) -> ProxyRefusal:
    """Return the refusal (TOPIC_NOT_FOUND) of a topic that no broker has."""
    return ProxyRefusal(
        pb.TOPIC_NOT_FOUND, f"No topic route info in name server for the topic: {name}"
    )
