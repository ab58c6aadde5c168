"""Namespaces in the names of topics and groups, for tenants that share a cluster.

Brokers know topic `orders` of the namespace `shop` as `shop%orders`, and the retry topic of its group `billing` as
`%RETRY%shop%billing`. Clients take and mostly return the short names. Mostly follows NamespaceUtil of RocketMQ 5.3.3.
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
    """A namespace, whose name and "%" precede names of topics and groups; the empty namespace changes no names."""

    def __init__(self, name: str) -> None:
        self._front = f"{name}{_SEPARATOR}" if name else ""

    def wrap(self, resource: str) -> str:
        """Return a topic or group with the prefix (behind %RETRY% or %DLQ%), as brokers know it.

        System names, names that end with REPLY_TOPIC, and names that already have the prefix are returned unchanged.
        """
        if (
            not self._front
            or is_system_topic(resource)
            or is_system_group(resource)
            # Reply topics are shared by a cluster, because requester and replier may use different namespaces.
            or resource.endswith(REPLY_TOPIC_SUFFIX)
        ):
            return resource
        prefix, name = _split(resource)
        return resource if name.startswith(self._front) else f"{prefix}{self._front}{name}"

    def unwrap(self, resource: str) -> str:
        """Return a topic or group without this namespace, as users know it; %RETRY% and %DLQ% stay."""
        if not self._front:
            return resource
        prefix, name = _split(resource)
        return prefix + name.removeprefix(self._front)

    def wrap_queue(self, queue: MessageQueue) -> MessageQueue:
        """Return a queue with its topic as brokers know it: with the prefix, unless `wrap` adds none."""
        if not self._front:
            return queue
        return MessageQueue(self.wrap(queue.topic), queue.broker_name, queue.queue_id)

    def unwrap_queue(self, queue: MessageQueue) -> MessageQueue:
        """Return a queue with its topic as users know it: without the prefix of this namespace, if the topic has it."""
        if not self._front:
            return queue
        return MessageQueue(self.unwrap(queue.topic), queue.broker_name, queue.queue_id)


NO_NAMESPACE = Namespace("")


def namespace_of(name: str) -> Namespace:
    """Return the namespace with this name; `NO_NAMESPACE` if it is empty."""
    return Namespace(name) if name else NO_NAMESPACE


def _split(resource: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if resource.startswith(prefix):
            return prefix, resource.removeprefix(prefix)
    return "", resource
