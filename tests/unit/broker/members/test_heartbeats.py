"""Heartbeats, who is connected, and locks: values in, values out."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from cometmq.broker.members.client_connections import ClientConnections
from cometmq.broker.members.heartbeats import (
    CLIENT_ID_LENGTH_MAX,
    HEARTBEAT_GROUPS_MAX,
    HEARTBEAT_NEW_GROUPS_MAX,
    HeartbeatResult,
    Heartbeats,
)
from cometmq.broker.members.member_locks import LockResult, MemberLocks
from cometmq.broker.tables.members import Client, ConsumerGroup, Members
from cometmq.codec.bodies.heartbeat import ConsumerPart, Heartbeat, ProducerPart
from cometmq.codec.bodies.lock import LockRequest
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.group import GroupConfig
from cometmq.model.names import retry_topic
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import Subscription
from tests.support.hand_clock import HandClock
from tests.support.steps import run
from tests.unit.broker.client_by_hand import HandClientPeer, client_of


@pytest.fixture
def told():
    return []


@pytest.fixture
def heartbeats(tables, told):
    def announce(seconds_max):
        assert seconds_max == 1.0, "clients time out after 3 s"
        told.append(tables.topics.version.counter)
        yield from ()

    return Heartbeats(tables, announce=announce)


def beat(*groups: str, producers: tuple[str, ...] = (), client_id: str = "c1") -> Heartbeat:
    return Heartbeat(
        client_id,
        tuple(ProducerPart(name) for name in producers),
        tuple(ConsumerPart(name) for name in groups),
    )


async def test_who_makes_a_group_is_answered_when_nameservers_know_its_retry_topic(
    tables, heartbeats, told
):
    client = client_of(HandClientPeer(), "c1")
    later = heartbeats.take(beat("new"), client)
    assert told == []
    assert await run(later) == HeartbeatResult(is_changed=True)
    assert tables.topics.get(retry_topic("new")) is not None
    assert len(told) == 1
    assert heartbeats.take(beat("new", producers=("p",)), client) == HeartbeatResult(True)
    assert len(told) == 1


async def test_a_heartbeat_makes_so_many_groups_and_the_next_one_more(tables, heartbeats):
    count = HEARTBEAT_NEW_GROUPS_MAX + 1
    names = [f"g{number}" for number in range(count)]
    client = client_of(HandClientPeer(), "c1")
    result = await run(heartbeats.take(beat(*names), client))
    assert result.refusal.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert tables.groups.peek(names[-1]) is None
    assert (await run(heartbeats.take(beat(*names), client))).refusal is None
    assert tables.groups.peek(names[-1]) is not None


@pytest.mark.parametrize(
    "heartbeat",
    [
        beat(client_id="c" * (CLIENT_ID_LENGTH_MAX + 1)),
        beat("g" * 256),
        beat(producers=("p" * 256,)),
        beat(*(f"g{number}" for number in range(HEARTBEAT_GROUPS_MAX + 1))),
    ],
    ids=["client id", "consumer group", "producer group", "groups"],
)
async def test_what_no_client_says_is_refused_and_leaves_nothing(tables, heartbeats, heartbeat):
    with pytest.raises(RequestError) as caught:
        heartbeats.take(heartbeat, client_of(HandClientPeer(), "c1"))
    assert caught.value.code == ResponseCode.INVALID_PARAMETER
    assert tables.members.producer_groups() == []
    assert tables.members.consumer_group("g0") is None


async def test_who_is_connected(tables, heartbeats):
    connections = ClientConnections(tables)
    for ask, code in (
        (connections.consumer_ids, ResponseCode.SYSTEM_ERROR),
        (connections.consumers, ResponseCode.CONSUMER_NOT_ONLINE),
        (connections.producers, ResponseCode.SYSTEM_ERROR),
    ):
        with pytest.raises(RequestError) as caught:
            ask("g")
        assert caught.value.code == code
    peer = HandClientPeer(50_001)
    await run(heartbeats.take(beat("g", producers=("p",)), client_of(peer, "c1")))
    assert connections.consumer_ids("g") == ["c1"]
    (consumer,) = connections.consumers("g").connections
    (producer,) = connections.producers("p")
    assert consumer == producer
    assert (producer.client_id, producer.address) == ("c1", peer.address)
    assert list(connections.all_producers()) == ["p"]


async def test_a_group_without_members_that_does_not_exist_says_so(tables):
    """Members of a group that may not be made are passed over, and then ask for each other."""
    connections = ClientConnections(tables)
    tables.groups.put(GroupConfig("known"))
    with pytest.raises(RequestError, match=r"no consumer for this group, known$"):
        connections.consumer_ids("known")
    with pytest.raises(
        RequestError,
        match=r"no consumer for this group, gone: the group does not exist; create it, or .*autoCreateSubscriptionGroup",
    ):
        connections.consumer_ids("gone")
    assert tables.groups.peek("gone") is None


async def test_a_queue_is_of_one_member_until_that_gives_it_up(tables):
    locks = MemberLocks(tables)
    here, elsewhere = MessageQueue("orders", "broker-a", 1), MessageQueue("orders", "b", 1)
    unknown = MessageQueue("orders", "broker-a", 9)

    async def lock(client_id: str, *queues: MessageQueue) -> LockResult:
        result = locks.lock(LockRequest("g", client_id, queues))
        return result if isinstance(result, LockResult) else await run(result)

    assert await lock("c1", here, elsewhere, unknown) == LockResult([here], missing_count=2)
    assert await lock("c2", here) == LockResult([], missing_count=0)
    locks.unlock(LockRequest("g", "c1", (here,)))
    assert await lock("c2", here) == LockResult([here], missing_count=0)
    with pytest.raises(RequestError, match="c" * 40):
        locks.lock(LockRequest("g", "c" * (CLIENT_ID_LENGTH_MAX + 1), (here,)))


def state_of(members: Members) -> object:
    """What a registry shows: groups with members, subscriptions and settings, and producers."""

    def shown(client: Client) -> tuple[object, ...]:
        return client.client_id, client.peer.address, client.seen, client.version

    consumers = {
        group.name: (
            sorted(map(shown, group.clients.values())), dict(group.subscriptions),
            group.consume_type, group.model, group.from_where,
        )
        for group in members.consumer_groups()
    }  # fmt: skip
    producers = {
        name: sorted(map(shown, members.producers(name))) for name in members.producer_groups()
    }
    ids = [members.producer(f"c{number}") for number in range(4)]
    return consumers, producers, members.changes, [each and shown(each) for each in ids]


class Side:
    """A registry and its clients, whose repeated heartbeats are known or, of a slow one, are not."""

    def __init__(self, tables, clock: HandClock, *, is_slow: bool) -> None:
        self.members = Members(clock, timeout_ms=1_000, is_notified=lambda _: False)
        if is_slow:
            self.members.is_repeated = lambda *_: False  # type: ignore[method-assign]
        self.heard: list[tuple[str, float, ConsumerPart]] = []
        self.members.on_heartbeat.append(self._hear)
        self._beats = Heartbeats(replace(tables, members=self.members), announce=None)  # type: ignore[arg-type]
        self._peers: dict[int, tuple[HandClientPeer, Heartbeat]] = {}
        self._clock = clock

    def _hear(self, group: ConsumerGroup, client: Client, part: ConsumerPart) -> None:
        self.heard.append((group.name, client.seen, part))

    def act(self, number: int, act: float, heartbeat: Heartbeat) -> object:
        """Let a client close, leave a group, say what it said last or something else; gives the answer."""
        peer, last = self._peers.get(number, (HandClientPeer(50_000 + number), heartbeat))
        if act < 0.1:
            peer.close()
            self._peers.pop(number, None)
        elif act < 0.2:
            self.members.unregister(peer, producer_group="p", consumer_group=None)
        elif act < 0.3:
            self.members.unregister(peer, producer_group=None, consumer_group="g")
        else:
            said = last if act < 0.8 else heartbeat
            self._peers[number] = peer, said
            client = client_of(peer, said.client_id)
            client.seen = self._clock.monotonic()
            return self._beats.take(said, client)
        return None


WISHES = [
    Subscription("t", "a", version=1), Subscription("t", "b", version=2), Subscription("u", "*"),
]  # fmt: skip


def some_heartbeat(chance: random.Random, number: int) -> Heartbeat:
    subscriptions = tuple(chance.sample(WISHES, chance.randrange(3)))
    groups = chance.choice(["g", "gh", ""])
    return Heartbeat(
        f"c{number if chance.random() < 0.9 else 0}",
        (ProducerPart("p"),) if chance.random() < 0.5 else (),
        tuple(ConsumerPart(name, subscriptions=subscriptions) for name in groups),
        fingerprint=chance.choice([0, 7]),
        is_without_subscriptions=chance.random() < 0.2,
    )


@pytest.mark.parametrize("seed", range(20))
async def test_a_repeated_heartbeat_leaves_what_registering_again_would(tables, seed):
    """Many clients that join, say the same again or something else, leave and come back."""
    chance, clock = random.Random(seed), HandClock()
    for name in ("g", "h"):
        tables.groups.put(GroupConfig(name))
        tables.topics.ensure(retry_topic(name), queues=1, perm=6)
    fast, slow = (Side(tables, clock, is_slow=is_slow) for is_slow in (False, True))
    for _ in range(400):
        clock.turn(1)
        number, act = chance.randrange(4), chance.random()
        if act > 0.95:
            tables.topics.ensure(f"t{act}", queues=1, perm=6)
        heartbeat = some_heartbeat(chance, number)
        assert fast.act(number, act, heartbeat) == slow.act(number, act, heartbeat)
        assert state_of(fast.members) == state_of(slow.members)
        assert fast.heard == slow.heard
