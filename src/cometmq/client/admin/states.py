"""The state of brokers, topics, groups and producers, combined from the answers of brokers.

Most of these values name the brokers that do not answer, with the reasons.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from cometmq.client.admin.absent import AbsentBroker
from cometmq.codec.bodies.connection import ClientConnection
from cometmq.codec.bodies.heartbeat import BROADCASTING
from cometmq.codec.bodies.stats import QueueBounds, QueueProgress
from cometmq.model.errors import GroupNotFound
from cometmq.model.group import GroupConfig
from cometmq.model.queue import MessageQueue
from cometmq.model.route import QueueData
from cometmq.model.subscription import Subscription
from cometmq.model.text import in_quotes
from cometmq.model.total import Total


class BrokerState(NamedTuple):
    """A member of a broker group, or its missing master, and the state that it reports.

    Attributes:
        cluster: Cluster of the broker group.
        broker_name: Name of the broker group.
        broker_id: 0 for the master.
        address: "host:port" of the broker; empty if it is not registered.
        is_writable: Whether the route of the topic named like the broker group permits sends; None: unknown.
        runtime: Its runtime values, under RocketMQ's names; empty if it did not report them.
        error: Why it did not report runtime values; None if it did.
        left_ms: Time when its broker group left the nameserver, ms since 1970; None if the group is registered.
        answered_ms: Local time when it reported its runtime values, ms since 1970; None if it did not.
        is_refused: Whether it answered that it does not permit this machine or user.
    """

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    is_writable: bool | None
    runtime: Mapping[str, str]
    error: str | None = None
    left_ms: int | None = None
    answered_ms: int | None = None
    is_refused: bool = False


@dataclass(frozen=True, slots=True)
class GroupState:
    """The state of a consumer group, combined from the brokers that answered.

    Attributes:
        name: Name of the group.
        configs: Its settings at each broker that has some, by broker name.
        progress: Offsets and lag by queue, including queues of retry topics.
        rate: Number of messages consumed per second, as brokers estimate it.
        members: Connected members, one for each client id.
        subscriptions: Subscriptions of the members, by topic.
        consume_type: Consume type of the members, in RocketMQ's terms; None without members.
        model: CLUSTERING or BROADCASTING; None without members.
        absent: Brokers that may have more of the group's messages but cannot be queried.
        uncounted: Other reasons why messages are not counted.
        unread: Why its members are not known, for example as the user may not read the group; empty if they are.
    """

    name: str
    configs: Mapping[str, GroupConfig] = field(default_factory=dict)
    progress: Mapping[MessageQueue, QueueProgress] = field(default_factory=dict)
    rate: float = 0.0
    members: tuple[ClientConnection, ...] = ()
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)
    consume_type: str | None = None
    model: str | None = None
    absent: tuple[AbsentBroker, ...] = ()
    uncounted: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def lag(self) -> Total:
        """The number of messages after the group's offsets, as a `Total` with the reasons why it may be larger.

        It is 0 with a reason if its topics are unknown, or its connected members are broadcasting (with own offsets).
        """
        reasons = (*self.unread, *self.uncounted, *map(str, self.absent))
        if self.model == BROADCASTING:
            return Total(0, ("each member of a broadcasting group keeps its own offsets",))
        if not (reasons or self.subscriptions or self.progress):
            reasons = ("the group has no offsets and no members, so its topics are not known",)
        return Total(sum(each.lag for each in self.progress.values()), reasons)

    @property
    def oldest_ms(self) -> int | None:
        """The store time of the oldest message that is known not to be consumed, ms since 1970; None without one.

        RocketMQ's own brokers do not report it. An absent broker may have an older message.
        """
        known = [each.oldest_ms for each in self.progress.values() if each.oldest_ms > 0]
        return None if self.model == BROADCASTING else min(known, default=None)

    def in_topic(self, topic: str) -> "GroupState":
        """Return the group with the queues of one topic only; its messages to be retried are in another topic."""
        of_topic = {
            queue: each for queue, each in self.progress.items() if queue.topic == topic
        }
        absent = tuple(each for each in self.absent if each.has_any([topic]))
        return replace(self, progress=of_topic, absent=absent)

    @property
    def stopped_at(self) -> list[str]:
        """The names of the brokers whose settings forbid the group to consume, sorted."""
        return sorted(name for name, each in self.configs.items() if not each.consume_enabled)

    @property
    def is_known(self) -> bool:
        """Whether a broker that answered knows the group, by its settings, offsets or members."""
        return bool(self.configs or self.progress or self.members)

    @property
    def topics(self) -> list[str]:
        """The topics, including retry topics, in which the group has offsets or to which its members subscribe, sorted."""
        return sorted({*self.subscriptions, *(queue.topic for queue in self.progress)})


@dataclass(frozen=True, slots=True)
class TopicState:
    """The state of a topic, combined from the brokers that answered.

    Attributes:
        queues: Offsets of the queried queues at these brokers.
        put_rate: Number of messages stored per second; 0 if not queried or not reported.
        routed: Queues and permissions by broker, according to the topic's route.
        absent: Brokers that may have more queues of it but cannot be queried.
        uncounted: Other reasons why messages are not counted.
    """

    queues: Mapping[MessageQueue, QueueBounds]
    put_rate: float = 0.0
    routed: tuple[QueueData, ...] = ()
    absent: tuple[AbsentBroker, ...] = ()
    uncounted: tuple[str, ...] = ()

    @property
    def last_ms(self) -> int:
        """The store time of the last message in `queues`, ms since 1970; 0 if there is none or it is unknown."""
        return max((each.updated_ms for each in self.queues.values()), default=0)

    @property
    def messages(self) -> Total:
        """The number of messages in `queues`, as a `Total` with the reasons why it may be larger."""
        held = sum(each.message_count for each in self.queues.values())
        return Total(held, (*self.uncounted, *map(str, self.absent)))


class ProducerState(NamedTuple):
    """A member of a producer group that is connected to brokers.

    Attributes:
        group: Name of the producer group.
        client: The member, as one of the brokers reports it.
        brokers: Names of the broker groups whose masters it is connected to, sorted.
        seen_ms: Time of its last heartbeat at any of them, by the broker's clock, ms since 1970.
    """

    group: str
    client: ClientConnection
    brokers: tuple[str, ...]
    seen_ms: int


class ClusterProducers(NamedTuple):
    """The connected members of producer groups, sorted, and the brokers that cannot be queried for more of them."""

    found: tuple[ProducerState, ...]
    absent: tuple[AbsentBroker, ...]


def group_not_found(group: str, absent: Iterable[AbsentBroker] = ()) -> GroupNotFound:
    """Return the error for a group that no broker has; its text also names the `absent` brokers, which left or do not answer."""
    unasked = "".join(f"; {each}" for each in absent)
    return GroupNotFound(
        f"no broker has the consumer group {in_quotes(group)}: create it (cometmq group create, Admin.groups.create), "
        f"or start a member{unasked}"
    )
