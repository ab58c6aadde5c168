"""Names of topics and groups with a namespace in front, for tenants that share a cluster.

Brokers know `orders` of the namespace `shop` as `shop%orders`, and the retries of its group `billing` as
`%RETRY%shop%billing`. Users write and see the short names. Follows NamespaceUtil of RocketMQ 5.3.3.
"""

from cometmq.model.names import (
    DLQ_PREFIX,
    REPLY_TOPIC_SUFFIX,
    RETRY_PREFIX,
    is_system_group,
    is_system_topic,
)
from cometmq.model.queue import MessageQueue

_SEPARATOR = "%"


class Namespace:
    """A namespace before names of topics and groups; the empty one changes nothing."""

    def __init__(self, name: str) -> None:
        self._front = f"{name}{_SEPARATOR}" if name else ""

    def wrap(self, resource: str) -> str:
        """The name of a topic or group with its namespace, as brokers know it; the system's have none."""
        if (
            not self._front
            or is_system_topic(resource)
            or is_system_group(resource)
            # Where a cluster's replies go: who asks and who replies may be of two namespaces.
            or resource.endswith(REPLY_TOPIC_SUFFIX)
        ):
            return resource
        prefix, name = _split(resource)
        return resource if name.startswith(self._front) else f"{prefix}{self._front}{name}"

    def unwrap(self, resource: str) -> str:
        """The name of a topic or group without its namespace, as users know it."""
        if not self._front:
            return resource
        prefix, name = _split(resource)
        return prefix + name.removeprefix(self._front)

    def wrap_queue(self, queue: MessageQueue) -> MessageQueue:
        """Return the queue as brokers know it; takes a queue of a message, too, whose topic is short."""
        if not self._front:
            return queue
        return MessageQueue(self.wrap(queue.topic), queue.broker_name, queue.queue_id)

    def unwrap_queue(self, queue: MessageQueue) -> MessageQueue:
        """Return the queue as messages name it."""
        if not self._front:
            return queue
        return MessageQueue(self.unwrap(queue.topic), queue.broker_name, queue.queue_id)


NO_NAMESPACE = Namespace("")


def namespace_of(name: str) -> Namespace:
    """The namespace of this name; `NO_NAMESPACE` for the empty one, which costs nothing."""
    return Namespace(name) if name else NO_NAMESPACE


def _split(resource: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if resource.startswith(prefix):
            return prefix, resource.removeprefix(prefix)
    return "", resource
