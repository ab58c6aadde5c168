"""The members of producer and consumer groups, known from heartbeats until a client leaves, disconnects or stays silent.

Consumers of a group are usually notified (request 40) when its members or topics change, so that they rebalance.
Follows ConsumerManager, ProducerManager and ConsumerGroupInfo of RocketMQ 5.3.3.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from cometmq.broker.tables.client_peer import ClientPeer
from cometmq.codec.bodies.heartbeat import (
    CLUSTERING,
    CONSUME_PASSIVELY,
    FROM_LAST,
    ConsumerPart,
    Heartbeat,
)
from cometmq.model.clock import Clock
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.rights import Access, Action, Asker, Resource, Right
from cometmq.model.subscription import Subscription
from cometmq.model.text import in_quotes

# Estimated size limit of all memberships in bytes. A connection may have a quarter of what is left, so that many large
# clients still leave room for a small one.
HELD_SIZE_MAX = 32 << 20
_HELD_SHARE = 4
_MEMBERSHIP_SIZE = 500  # Measured; includes the group's entry for its first member.
_SUBSCRIPTION_SIZE = 400
_TAG_SIZE = 150
# Shortest time between notifications of a group; the first is sent at once. Larger groups are notified less often: over
# all members of a group, this many per second.
TELL_SECONDS = 0.1
_TOLD_PER_SECOND = 2000
_SHOWN_MAX = 128  # Largest part of a client id in a remark, characters.
_TOLD_AT_ONCE = 256  # Notifications per iteration of the loop.
# Largest number of remembered first pulls, over all groups: some 20 MB.
FIRST_PULLS_MAX = 100_000


@dataclass(slots=True)
class Client:
    """A client in one group.

    Attributes:
        client_id: The id that the client gave itself.
        language: `model.codes.Language`.
        version: Ordinal of its RocketMQ version.
        seen: Time of its last heartbeat, monotonic seconds.
        asker: The user of that heartbeat.
    """

    client_id: str
    peer: ClientPeer
    asker: Asker
    language: int
    version: int
    seen: float


def who_may(clients: Iterable[Client], *accesses: Access) -> list[Client]:
    """Return the clients whose users currently have all these rights."""
    verdicts: dict[Asker, bool] = {}
    allowed = []
    for client in clients:
        asker = client.asker
        verdict = verdicts.get(asker)
        if verdict is None:
            verdict = all(asker.may(access, Right.READER) for access in accesses)
            verdicts[asker] = verdict
        if verdict:
            allowed.append(client)
    return allowed


def membership(group: str) -> Access:
    """Return the access to a consumer group that its members need: SUB on the group."""
    return Access(Resource.GROUP, group, frozenset({Action.SUB}))


@dataclass(slots=True)
class ConsumerGroup:
    """A consumer group: its members and their subscriptions, as in their heartbeats."""

    name: str
    clients: dict[ClientPeer, Client] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    consume_type: str = CONSUME_PASSIVELY
    model: str = CLUSTERING
    from_where: str = FROM_LAST
    told: float = -math.inf  # Time of the last notification, monotonic seconds.
    is_telling: bool = False  # Whether a notification is scheduled.
    # The offset of the first pull that was noted, by topic and queue.
    first_pulls: dict[tuple[str, int], int] = field(default_factory=dict)

    def client_ids(self) -> list[str]:
        """Return the ids of the members, each once; a reconnected client may still have two connections."""
        return list(dict.fromkeys(client.client_id for client in self.clients.values()))


# Called with a group, the member whose heartbeat arrived, and the content of the heartbeat.
OnHeartbeat = Callable[[ConsumerGroup, Client, ConsumerPart], None]


@dataclass(slots=True)
class _Share:
    """The estimated sizes of a connection's memberships in bytes, by group, and the client id of its producer.

    Attributes:
        last: The last heartbeat, if it is registered completely: its client, what it says, and `state` of `is_repeated`.
    """

    producers: dict[str, int] = field(default_factory=dict)
    consumers: dict[str, int] = field(default_factory=dict)
    size: int = 0
    producer_id: str = ""
    last: tuple[Client, Heartbeat, object] | None = None


@dataclass(slots=True)
class _ClientIdOwner:
    """The user of a client id, and the number of memberships with this id."""

    asker: Asker
    count: int = 0


class Members:
    """The registry of a broker's producers and consumers, by group.

    Attributes:
        changes: Number that increases with each change of a consumer group: its members, subscriptions or other settings.
        on_heartbeat: Called for each registered heartbeat of a consumer, except those without subscriptions.
        on_first: Called at the first heartbeat of a connection if no other connection that has sent one is open.
        on_left: Called with the group name and the connection of a consumer that was removed from the group.
        on_changed: Called with the name of a consumer group whose members or topics have changed.
        refused: Number of memberships that were refused because those of a connection or of all take too much memory.
    """

    def __init__(
        self, clock: Clock, *, timeout_ms: int, is_notified: Callable[[str], bool]
    ) -> None:
        """Have `expire` disconnect clients without a heartbeat for `timeout_ms`.

        `is_notified` returns whether members of a consumer group are notified of changes.
        """
        self.changes = 0
        self.on_heartbeat: list[OnHeartbeat] = []
        self.on_first: Callable[[], None] = lambda: None
        self.on_left: list[Callable[[str, ClientPeer], None]] = []
        self.on_changed: Callable[[str], None] = lambda _: None
        self.refused = 0
        self._clock = clock
        self._timeout_seconds = timeout_ms / 1000
        self._is_notified = is_notified
        self._producers: dict[str, dict[ClientPeer, Client]] = {}
        self._producers_by_id: dict[str, Client] = {}
        self._consumers: dict[str, ConsumerGroup] = {}
        self._owners: dict[str, _ClientIdOwner] = {}  # By client id.
        self._held: dict[ClientPeer, _Share] = {}
        self._size = 0
        self._first_pull_count = 0

    # --- reading

    def consumer_groups(self) -> list[ConsumerGroup]:
        """Return the `ConsumerGroup` objects of the groups with registered members."""
        return list(self._consumers.values())

    def consumer_group(self, name: str) -> ConsumerGroup | None:
        """Return the `ConsumerGroup` of this name, or None if it has no registered members."""
        return self._consumers.get(name)

    def consumer(self, group: str, client_id: str) -> Client | None:
        """Return the member of a consumer group with this client id (if it has two connections, the first), or None."""
        found = self._consumers.get(group)
        clients = () if found is None else found.clients.values()
        return next((client for client in clients if client.client_id == client_id), None)

    def groups_of(self, topic: str) -> list[str]:
        """Return the names of the consumer groups that subscribe to a topic, by their members' heartbeats."""
        return [name for name, group in self._consumers.items() if topic in group.subscriptions]

    def producer(self, client_id: str) -> Client | None:
        """Return the producer that last used this client id; None if it has left, or its user is not accepted now."""
        client = self._producers_by_id.get(client_id)
        return client if client is not None and client.asker.is_known else None

    def producers(self, group: str) -> list[Client]:
        """Return the registered producers of a group."""
        return list(self._producers.get(group, {}).values())

    def producer_groups(self) -> list[str]:
        """Return the names of the groups with registered producers."""
        return list(self._producers)

    def subscription(self, group: str, topic: str) -> Subscription | None:
        """Return the subscription of a consumer group to a topic, as in its members' heartbeats, or None."""
        found = self._consumers.get(group)
        return None if found is None else found.subscriptions.get(topic)

    # --- first pulls of groups without offsets

    def note_first_pull(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Remember the offset of a pull, unless one of the same group and queue is remembered.

        Nothing is remembered for a group without members, or beyond FIRST_PULLS_MAX in all groups.
        """
        found = self._consumers.get(group)
        if found is None or self._first_pull_count >= FIRST_PULLS_MAX:
            return
        if (topic, queue_id) not in found.first_pulls:
            found.first_pulls[topic, queue_id] = offset
            self._first_pull_count += 1

    def forget_topic(self, topic: str) -> None:
        """Forget the first pulls of a deleted topic."""
        for group in self._consumers.values():
            for key in [key for key in group.first_pulls if key[0] == topic]:
                del group.first_pulls[key]
                self._first_pull_count -= 1

    # --- heartbeats

    def check_owner(self, client_id: str, asker: Asker) -> None:
        """Raise RequestError (NO_PERMISSION) if a client id is in use by another user who is still accepted."""
        owner = self._owners.get(client_id)
        if owner is not None and owner.asker.name != asker.name and owner.asker.is_known:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"client id {in_quotes(client_id, _SHOWN_MAX)} belongs to a connected client of another user; give this "
                "client an id of its own (instanceName, unitName), or close the other one first",
            )

    def is_repeated(self, heartbeat: Heartbeat, client: Client, state: object) -> bool:
        """Return whether a heartbeat repeats the last one of its connection, and no consumer group has changed since.

        If so, it is processed here; if not, the caller must register its groups. `state` stands for all other tables
        that a registration depends on, and must be as at the last heartbeat.
        """
        held = self._held.get(client.peer)
        if held is None or held.last is None:
            return False
        known, said, last_state = held.last
        is_same = (
            last_state == (self.changes, state)
            and known.asker is client.asker
            and (known.language, known.version) == (client.language, client.version)
            and (said is heartbeat or said == heartbeat)
        )
        if not is_same:
            return False
        known.seen = client.seen
        if heartbeat.producers:
            self._producers_by_id[known.client_id] = known
        if not heartbeat.is_without_subscriptions:
            for part in heartbeat.consumers:
                for listener in self.on_heartbeat:
                    listener(self._consumers[part.group], known, part)
        return True

    def note_heartbeat(self, heartbeat: Heartbeat, client: Client, state: object) -> None:
        """Remember a heartbeat for `is_repeated` if the client is registered in all of its groups."""
        held = self._held.get(client.peer)
        if held is not None and all(
            part.group in held.consumers for part in heartbeat.consumers
        ):
            held.last = client, heartbeat, (self.changes, state)

    def register_producer(self, group: str, client: Client) -> None:
        """Register a heartbeat of a producer; raise RequestError if memberships take too much memory."""
        held = self._held_by(client.peer)
        size = _MEMBERSHIP_SIZE + len(group) + len(client.client_id)
        self._take(held, held.producers, group, size)
        members = self._producers.setdefault(group, {})
        self._own(members.get(client.peer), client)
        members[client.peer] = client
        if held.producer_id != client.client_id:
            self._forget_producer_id(client.peer, held)
            held.producer_id = client.client_id
        self._producers_by_id[client.client_id] = client

    def register_consumer(
        self, part: ConsumerPart, client: Client, *, is_without_subscriptions: bool = False
    ) -> bool:
        """Register a heartbeat of a consumer; return whether members or topics of its group changed.

        If they did, members that may use the group are notified, at once or soon, unless `is_notified` excludes the group.
        With `is_without_subscriptions`, the group's subscriptions of the last full heartbeat are kept.

        Raises:
            RequestError: Memberships take too much memory.
        """
        held = self._held_by(client.peer)
        if not is_without_subscriptions or part.group not in held.consumers:
            size = _size_of(part) + len(client.client_id)
            self._take(held, held.consumers, part.group, size)
        group = self._consumers.get(part.group)
        if group is None:
            group = self._consumers[part.group] = ConsumerGroup(part.group)
        known = group.clients.get(client.peer)
        is_changed = known is None or known.client_id != client.client_id
        self._own(known, client)
        group.clients[client.peer] = client
        before = group.consume_type, group.model, group.from_where
        settings = part.consume_type, part.model, part.from_where
        group.consume_type, group.model, group.from_where = settings
        is_new = before != settings
        if not is_without_subscriptions:
            has_topics, is_newer = _update(group.subscriptions, part.subscriptions)
            is_changed |= has_topics
            is_new |= is_newer
            for listener in self.on_heartbeat:
                listener(group, client, part)
        if is_changed or is_new:
            self.changes += 1
        if is_changed:
            self.on_changed(group.name)
            self._notify(group)
        return is_changed

    def _own(self, before: Client | None, after: Client | None) -> None:
        """Update the owner and number of memberships of client ids when a client is added, removed or replaced."""
        if after is not None:
            owner = self._owners.setdefault(after.client_id, _ClientIdOwner(after.asker))
            if not owner.asker.is_known:
                owner.asker = after.asker
            if before is not None and before.client_id == after.client_id:
                return  # As for most heartbeats.
            owner.count += 1
        if before is not None:
            owner = self._owners[before.client_id]
            owner.count -= 1
            if not owner.count:
                del self._owners[before.client_id]

    def _held_by(self, peer: ClientPeer) -> _Share:
        held = self._held.get(peer)
        if held is None:
            if not self._held:
                self.on_first()
            held = self._held[peer] = _Share()
            peer.on_close.append(self._peer_closed)
        return held

    def _take(self, held: _Share, sizes: dict[str, int], group: str, size: int) -> None:
        """Count the size of a membership in memory; raise RequestError if there is too little for its growth."""
        more = size - sizes.get(group, 0)
        if more > 0 and (held.size + more) * _HELD_SHARE > HELD_SIZE_MAX - self._size:
            self.refused += 1
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                f"[REJECTREQUEST]system busy: group {group} is not registered: this connection would have "
                f"{held.size + more} bytes of groups and subscriptions, and all clients together have "
                f"{self._size} of {HELD_SIZE_MAX} bytes; subscribe to fewer topics, or try again",
            )
        sizes[group] = size
        held.size += more
        self._size += more

    def _give_back(self, held: _Share, sizes: dict[str, int], group: str) -> None:
        size = sizes.pop(group, 0)
        held.size -= size
        self._size -= size

    # --- leaving

    def unregister(
        self, peer: ClientPeer, *, producer_group: str | None, consumer_group: str | None
    ) -> None:
        """Remove a client from the producer group and the consumer group that it leaves; None: from no such group."""
        if producer_group:
            self._drop_producer(peer, producer_group)
        if consumer_group:
            self._drop_consumer(peer, consumer_group)

    def expire(self) -> float:
        """Close each connection on which the heartbeat for some group is overdue.

        Returns the monotonic seconds at which the next heartbeat may be overdue: now if all are, infinite without clients.
        """
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
        seen = [client.seen for client in clients if client.seen >= oldest]
        # Connections that are being closed stay until they are closed; they are checked again as often as others.
        return min(seen, default=math.inf if not clients else oldest) + self._timeout_seconds

    def _peer_closed(self, peer: ClientPeer) -> None:
        held = self._held.get(peer, _Share())
        for name in list(held.producers):
            self._drop_producer(peer, name)
        for name in list(held.consumers):
            self._drop_consumer(peer, name)
        self._held.pop(peer, None)

    def _drop_producer(self, peer: ClientPeer, name: str) -> None:
        clients = self._producers.get(name)
        client = None if clients is None else clients.pop(peer, None)
        if client is None:
            return
        self._own(client, None)
        self._held[peer].last = None
        if not clients:
            del self._producers[name]
        held = self._held[peer]
        self._give_back(held, held.producers, name)
        if not held.producers:
            self._forget_producer_id(peer, held)

    def _forget_producer_id(self, peer: ClientPeer, held: _Share) -> None:
        known = self._producers_by_id.get(held.producer_id)
        # The client id may have a newer connection.
        if known is not None and known.peer is peer:
            del self._producers_by_id[held.producer_id]

    def _drop_consumer(self, peer: ClientPeer, name: str) -> None:
        group = self._consumers.get(name)
        client = None if group is None else group.clients.pop(peer, None)
        if group is None or client is None:
            return
        self._own(client, None)
        self.changes += 1
        held = self._held[peer]
        self._give_back(held, held.consumers, name)
        for listener in self.on_left:
            listener(name, peer)
        self.on_changed(name)
        if group.clients:
            self._notify(group)
        else:
            self._first_pull_count -= len(group.first_pulls)
            del self._consumers[name]

    # --- notifications

    def _notify(self, group: ConsumerGroup) -> None:
        """Notify members of a change, if their users may use the group; later if the last notification was recent.

        Does nothing if a notification is already scheduled or `is_notified` excludes the group.
        """
        if group.is_telling or not self._is_notified(group.name):
            return
        pause = max(TELL_SECONDS, len(group.clients) / _TOLD_PER_SECOND)
        left = group.told + pause - self._clock.monotonic()
        if left <= 0:
            self._tell(group)
        else:
            group.is_telling = True
            asyncio.get_running_loop().call_later(min(left, pause), self._tell, group)

    def _tell(self, group: ConsumerGroup) -> None:
        group.told, group.is_telling = self._clock.monotonic(), False
        _tell_some(list(group.clients.values()), 0, group.name)


def _tell_some(clients: Sequence[Client], first: int, group: str) -> None:
    fields = {"consumerGroup": group}
    for client in who_may(clients[first : first + _TOLD_AT_ONCE], membership(group)):
        client.peer.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, fields)
    first += _TOLD_AT_ONCE
    if first < len(clients):
        asyncio.get_running_loop().call_soon(_tell_some, clients, first, group)


def _size_of(part: ConsumerPart) -> int:
    size = _MEMBERSHIP_SIZE + len(part.group)
    for wish in part.subscriptions:
        # The comparison of members stores topic and expression once more.
        size += _SUBSCRIPTION_SIZE + 4 * (len(wish.topic) + len(wish.expression))
        size += _TAG_SIZE * len(wish.tags)
    return size


def _update(known: dict[str, Subscription], told: Iterable[Subscription]) -> tuple[bool, bool]:
    """Store newer subscriptions, drop missing ones; return whether topics came or went, and whether any is newer."""
    is_changed = is_newer = False
    told = tuple(told)
    for subscription in told:
        old = known.get(subscription.topic)
        if old is None or subscription.version > old.version:
            is_changed |= old is None
            is_newer = True
            known[subscription.topic] = subscription
    for topic in known.keys() - {subscription.topic for subscription in told}:
        del known[topic]
        is_changed = True
    return is_changed, is_newer
