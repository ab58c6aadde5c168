"""The route of a topic: its broker groups with their addresses, and its queues on each of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cometmq.model.flags import is_readable, is_writable
from cometmq.model.queue import MessageQueue

MASTER_ID = 0
# Maximum number of queues per broker in an order configuration, as a broker creates (broker.tables.topics).
_QUEUES_MAX = 65_536


@dataclass(frozen=True, slots=True)
class BrokerData:
    """A broker group: its name, and the known addresses of its master (id 0) and slaves by id."""

    cluster: str
    broker_name: str
    addresses: Mapping[int, str]
    is_acting_master_enabled: bool = False
    zone_name: str | None = None

    def master_or_any(self) -> str | None:
        """Return the address of the master, otherwise of the member with the lowest id; None without addresses."""
        if not self.addresses:
            return None
        return self.addresses.get(MASTER_ID) or self.addresses[min(self.addresses)]


@dataclass(frozen=True, slots=True)
class QueueData:
    """The queues of a topic on one broker group."""

    broker_name: str
    read_queues: int
    write_queues: int
    perm: int
    sys_flag: int = 0


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """The route of a topic, as returned by a nameserver (TopicRouteData).

    Attributes:
        queues: Queues of the topic on each broker group.
        brokers: The broker groups.
        order_config: Order configuration of the topic, in the form "broker-a:4;broker-b:4"; None without one.
        filter_servers: Addresses of filter servers by broker address; obsolete.
        queue_mappings: TopicQueueMappingInfo by broker name in wire form, for a static topic (5.x).
    """

    queues: tuple[QueueData, ...]
    brokers: tuple[BrokerData, ...]
    order_config: str | None = None
    filter_servers: Mapping[str, list[str]] = field(default_factory=dict)
    queue_mappings: Mapping[str, Mapping[str, Any]] | None = None

    def broker(self, name: str) -> BrokerData | None:
        """Return the broker group with this name, or None if the route has none."""
        return next((broker for broker in self.brokers if broker.broker_name == name), None)

    def queue_count(self) -> int:
        """Return an upper limit of the number of queues that `read_queues` lists, and of that for `write_queues`."""
        configured = _configured(self.order_config or "")
        return max(
            sum(max(data.read_queues, 0) for data in self.queues),
            sum(max(data.write_queues, 0) for data in self.queues),
            sum(count for _, count in configured),
        )

    def read_queues(self, topic: str) -> list[MessageQueue]:
        """Return a sorted list of the queues that a consumer may read: on the brokers where the topic is readable."""
        return sorted(
            MessageQueue(topic, data.broker_name, queue_id)
            for data in self.queues
            if is_readable(data.perm)
            for queue_id in range(data.read_queues)
        )

    def write_queues(self, topic: str) -> list[MessageQueue]:
        """Return a sorted list of the queues that a producer may send to.

        They are the writable queues of brokers with a master; but with an order configuration the queues listed there,
        in any case, so that a key keeps its queue while a broker is away (topicRouteData2TopicPublishInfo in Java).
        """
        if self.order_config:
            return sorted(_configured_queues(topic, self.order_config))
        with_master = {b.broker_name for b in self.brokers if MASTER_ID in b.addresses}
        return sorted(
            MessageQueue(topic, data.broker_name, queue_id)
            for data in self.queues
            if is_writable(data.perm) and data.broker_name in with_master
            for queue_id in range(data.write_queues)
        )


def _configured_queues(topic: str, config: str) -> Iterator[MessageQueue]:
    for name, count in _configured(config):
        for queue_id in range(count):
            yield MessageQueue(topic, name, queue_id)


def _configured(config: str) -> Iterator[tuple[str, int]]:
    """Yield broker name and queue count (65,536 if larger) from "broker-a:4;broker-b:4", skipping malformed parts."""
    for part in config.split(";"):
        name, _, count = part.strip().rpartition(":")
        if name and count.isdecimal():
            # Python parses no number of more than 4,300 digits.
            yield name, min(int(count), _QUEUES_MAX) if len(count) <= 9 else _QUEUES_MAX
