"""Who produces and consumes: what heartbeats say, by group, until a client leaves or falls silent.

A consumer group is told when its members or their subscriptions change (40), so that they share the
queues anew. Follows ConsumerManager, ProducerManager and ConsumerGroupInfo of RocketMQ 5.3.3.

Next: cometmq.broker.long_poll
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from cometmq.codec.bodies.heartbeat import (
    CLUSTERING,
    CONSUME_PASSIVELY,
    FROM_LAST,
    ConsumerPart,
)
from cometmq.model.clock import Clock
from cometmq.model.codes import RequestCode
from cometmq.model.subscription import Subscription
from cometmq.net.peer import Peer


@dataclass(slots=True)
class Client:
    """A client in one group.

    Attributes:
        client_id: as it calls itself.
        peer: its connection.
        language: `model.codes.Language`.
        version: ordinal of its RocketMQ version.
        seen: monotonic time of its last heartbeat, seconds.
    """

    client_id: str
    peer: Peer
    language: int
    version: int
    seen: float


@dataclass(slots=True)
class ConsumerGroup:
    """The members of a consumer group and what they want; the last heartbeat's word counts."""

    name: str
    clients: dict[Peer, Client] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    consume_type: str = CONSUME_PASSIVELY
    model: str = CLUSTERING
    from_where: str = FROM_LAST

    def client_ids(self) -> list[str]:
        """Each member once; one that has just reconnected may still have two connections."""
        return list(dict.fromkeys(client.client_id for client in self.clients.values()))


# Called with a group, its member that has just said what it wants, and that.
OnHeartbeat = Callable[[ConsumerGroup, Client, ConsumerPart], None]


class Members:
    """The registry of clients.

    Attributes:
        on_heartbeat: told of each consumer that says what it wants, when it is in its group.
    """

    def __init__(
        self, clock: Clock, *, timeout_ms: int, is_notified: Callable[[str], bool]
    ) -> None:
        """`is_notified` says whether members of a group are told of changes."""
        self.on_heartbeat: list[OnHeartbeat] = []
        self._clock = clock
        self._timeout_seconds = timeout_ms / 1000
        self._is_notified = is_notified
        self._producers: dict[str, dict[Peer, Client]] = {}
        self._producers_by_id: dict[str, Client] = {}
        self._consumers: dict[str, ConsumerGroup] = {}
        self._groups_of: dict[Peer, tuple[set[str], set[str]]] = {}

    # --- reading

    def consumer_groups(self) -> list[ConsumerGroup]:
        """The groups with living members."""
        return list(self._consumers.values())

    def consumer_group(self, name: str) -> ConsumerGroup | None:
        """A group with living members, or None."""
        return self._consumers.get(name)

    def consumer(self, group: str, client_id: str) -> Client | None:
        """The member of a group with this id."""
        found = self._consumers.get(group)
        clients = () if found is None else found.clients.values()
        return next((client for client in clients if client.client_id == client_id), None)

    def groups_of(self, topic: str) -> list[str]:
        """Groups whose living members want a topic."""
        return [name for name, group in self._consumers.items() if topic in group.subscriptions]

    def producer(self, client_id: str) -> Client | None:
        """The producer with this id, whatever its group: where replies go."""
        return self._producers_by_id.get(client_id)

    def producers(self, group: str) -> list[Client]:
        """The living producers of a group."""
        return list(self._producers.get(group, {}).values())

    def producer_groups(self) -> list[str]:
        """The groups with living producers."""
        return list(self._producers)

    def subscription(self, group: str, topic: str) -> Subscription | None:
        """What a group wants of a topic, as its heartbeats say."""
        found = self._consumers.get(group)
        return None if found is None else found.subscriptions.get(topic)

    # --- heartbeats

    def register_producer(self, group: str, client: Client) -> None:
        """A producer is alive."""
        self._producers.setdefault(group, {})[client.peer] = client
        self._producers_by_id[client.client_id] = client
        self._groups(client.peer)[0].add(group)

    def register_consumer(
        self, part: ConsumerPart, client: Client, *, is_without_subscriptions: bool = False
    ) -> bool:
        """A consumer is alive; tells the group when that changes something.

        Args:
            part: what it says of the group.
            client: who it is.
            is_without_subscriptions: its subscriptions are those of its last full heartbeat.

        Returns:
            Whether members or subscriptions changed.
        """
        group = self._consumers.get(part.group)
        if group is None:
            group = self._consumers[part.group] = ConsumerGroup(part.group)
        known = group.clients.get(client.peer)
        is_changed = known is None or known.client_id != client.client_id
        group.clients[client.peer] = client
        self._groups(client.peer)[1].add(part.group)
        group.consume_type, group.model = part.consume_type, part.model
        group.from_where = part.from_where
        if not is_without_subscriptions:
            is_changed |= _update(group.subscriptions, part.subscriptions)
            for listener in self.on_heartbeat:
                listener(group, client, part)
        if is_changed:
            self._notify(group)
        return is_changed

    def _groups(self, peer: Peer) -> tuple[set[str], set[str]]:
        groups = self._groups_of.get(peer)
        if groups is None:
            groups = self._groups_of[peer] = (set(), set())
            peer.on_close.append(self._peer_closed)
        return groups

    # --- leaving

    def unregister(
        self, peer: Peer, *, producer_group: str | None, consumer_group: str | None
    ) -> None:
        """A client leaves groups in good order."""
        if producer_group:
            self._drop_producer(peer, producer_group)
        if consumer_group:
            self._drop_consumer(peer, consumer_group)

    def expire(self) -> None:
        """Close the connections of clients that have been silent too long; each minute is enough."""
        oldest = self._clock.monotonic() - self._timeout_seconds
        clients = [
            client
            for group in (
                *self._producers.values(),
                *(g.clients for g in self._consumers.values()),
            )
            for client in group.values()
        ]
        for client in clients:
            if client.seen < oldest:
                client.peer.close()

    def _peer_closed(self, peer: Peer) -> None:
        producer_groups, consumer_groups = self._groups_of.pop(peer, (set(), set()))
        for name in list(producer_groups):
            self._drop_producer(peer, name)
        for name in list(consumer_groups):
            self._drop_consumer(peer, name)

    def _drop_producer(self, peer: Peer, name: str) -> None:
        clients = self._producers.get(name)
        left = None if clients is None else clients.pop(peer, None)
        if not clients:
            self._producers.pop(name, None)
        if left is None or any(peer in others for others in self._producers.values()):
            return
        known = self._producers_by_id.get(left.client_id)
        if known is not None and known.peer is peer:  # Else it has a newer connection.
            del self._producers_by_id[left.client_id]

    def _drop_consumer(self, peer: Peer, name: str) -> None:
        group = self._consumers.get(name)
        if group is None or group.clients.pop(peer, None) is None:
            return
        if group.clients:
            self._notify(group)
        else:
            del self._consumers[name]

    def _notify(self, group: ConsumerGroup) -> None:
        if self._is_notified(group.name):
            for peer in group.clients:
                peer.notify(
                    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group.name}
                )


def _update(known: dict[str, Subscription], told: Iterable[Subscription]) -> bool:
    """Take newer subscriptions and drop those not told; whether topics came or went."""
    is_changed = False
    told = tuple(told)
    for subscription in told:
        old = known.get(subscription.topic)
        if old is None or subscription.version > old.version:
            is_changed |= old is None
            known[subscription.topic] = subscription
    for topic in known.keys() - {subscription.topic for subscription in told}:
        del known[topic]
        is_changed = True
    return is_changed
