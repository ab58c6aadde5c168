"""Reroutes: how delayed messages, transactions and others come to be stored in another topic.

Admission has checked the send by then. Each reroute sees it and gives it back, as it is or changed:
another topic, another queue, other properties. A plain message never comes here (broker.send.requests.sends
stores it straight).
"""

from collections.abc import Callable

from cometmq.model.frozen import dataclass
from cometmq.model.topic import TopicConfig


@dataclass(frozen=True, slots=True)
class RoutedSend:
    """A message that may be stored, and where.

    Attributes:
        topic: where it goes.
        queue_id: of that topic.
        properties: of the message; a reroute changes a copy.
        sys_flag: of the record, without the bits of its hosts.
        transaction: the transaction bits of `sys_flag`; half messages get no queue entry by it,
            so a reroute that moves one to the half topic clears them.
        is_due_coded: whether the queue entry holds the due time in place of the tag's hash.
        born_topic: the topic that the client named.
        is_batch: whether the body is many messages.
    """

    topic: TopicConfig
    queue_id: int
    properties: dict[str, str]
    sys_flag: int
    born_topic: str
    transaction: int = 0
    is_due_coded: bool = False
    is_batch: bool = False


# May raise RequestError: the send is refused.
Reroute = Callable[[RoutedSend], RoutedSend]
