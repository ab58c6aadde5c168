"""Groups know their members, and members hear of each other."""

from __future__ import annotations

import json
import logging
from contextlib import asynccontextmanager

import pytest

from cometmq.broker.tables.members import TELL_SECONDS, Members
from cometmq.codec.bodies.conflicts import CLIENT_ID, SUBSCRIPTION, Conflict, decode_conflicts
from cometmq.codec.bodies.connection import decode_consumer_connections, decode_consumer_ids
from cometmq.codec.bodies.heartbeat import ConsumerPart, Heartbeat, encode_heartbeat
from cometmq.codec.bodies.lock import LockRequest, decode_locks_file, encode_lock_request
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import parse_subscription
from cometmq.net.channels import Channels
from cometmq.net.loop import loop_clock
from tests.unit.broker.client_by_hand import HandClientPeer, client_of
from tests.unit.broker.conftest import Served, eventually
from tests.unit.broker.member import Member, wishes


class Client(Member):
    """A client that consumes as `g`."""

    async def consumes(self, *topics, produces=()):
        return await self.beat(ConsumerPart("g", wishes(*topics)), produces=produces)

    async def hears(self, count):
        await eventually(lambda: len(self.asked) >= count)
        return [(each.code, each.fields) for each in self.asked]


@pytest.fixture
async def two(served):
    clients = [Client(served, "c1"), Client(served, "c2")]
    yield clients
    for client in clients:
        await client.channels.close()


async def ids(served):
    answer = await served.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
    return decode_consumer_ids(answer.body) if answer.code == 0 else ()


async def test_members_are_told_when_one_comes_and_when_its_connection_goes(served, two):
    first, second = two
    answer = await first.consumes("Orders")
    assert answer.fields["IS_SUPPORT_HEART_BEAT_V2"] == "true"
    await first.hears(1)
    await second.consumes("Orders")
    assert (await first.hears(2))[1] == (40, {"consumerGroup": "g"})
    assert await ids(served) == ("c1", "c2")
    await second.channels.close()
    await first.hears(3)
    assert await ids(served) == ("c1",)


async def test_a_heartbeat_that_changes_nothing_tells_nobody(served, two):
    first, _ = two
    await first.consumes("Orders")
    await first.hears(1)
    await first.consumes("Orders")
    await first.consumes("Orders", "Other")
    assert len(await first.hears(2)) == 2


async def test_a_client_that_leaves_is_gone_at_once(served, two):
    first, _ = two
    await first.consumes("Orders", produces=("p",))
    fields = {"clientID": "c1", "producerGroup": "p", "consumerGroup": "g"}
    await first.ask(RequestCode.UNREGISTER_CLIENT, fields)
    assert await ids(served) == ()
    answer = await served.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"})
    assert answer.code == ResponseCode.CONSUMER_NOT_ONLINE
    answer = await served.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "p"})
    assert answer.code == ResponseCode.SYSTEM_ERROR


async def test_all_producers_are_told_with_their_last_heartbeat(served, two):
    first, second = two
    await first.consumes("Orders", produces=("p", "q"))
    await second.consumes("Orders", produces=("p",))
    answer = await served.ask(RequestCode.GET_ALL_PRODUCER_INFO)
    told = json.loads(answer.body)["data"]
    ids = {group: sorted(each["clientId"] for each in told[group]) for group in told}
    assert ids == {"p": ["c1", "c2"], "q": ["c1"]}
    (one,) = told["q"]
    assert one["remoteIP"].startswith("/127.0.0.1:")
    assert one["language"] == "PYTHON"
    assert abs(one["lastUpdateTimestamp"] - loop_clock().now_ms()) < 60_000


async def test_a_heartbeat_makes_the_retry_topic_and_is_listed(served, two):
    first, _ = two
    await first.consumes("Orders")
    topic = await served.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "%RETRY%g"})
    assert json.loads(topic.body)["writeQueueNums"] == 1
    answer = await served.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"})
    group = decode_consumer_connections(answer.body)
    assert [each.client_id for each in group.connections] == ["c1"]
    assert set(group.subscriptions) == {"Orders"}


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"clientID":7}', b"\xff", b"[" * 9999])
async def test_a_heartbeat_that_means_nothing_is_refused(served, body):
    answer = await served.ask(RequestCode.HEART_BEAT, body=body)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert answer.remark


async def test_a_silent_client_is_dropped(served, two):
    first, _ = two
    await first.consumes("Orders")
    members = served.broker._members
    for client in members.consumer_group("g").clients.values():
        client.seen -= 121
    members.expire()

    async def is_gone():
        return await ids(served) == ()

    await eventually(is_gone)


CHANGED = (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "g"}, b"")


@pytest.fixture
def members(clock):
    return Members(clock, timeout_ms=1000, is_notified=lambda group: group != "quiet")


def join(members: Members, client_id: str, group: str = "g") -> HandClientPeer:
    peer = HandClientPeer(50_000 + int(client_id[1:]))
    members.register_consumer(ConsumerPart(group), client_of(peer, client_id))
    return peer


async def test_members_are_told_when_one_comes_and_when_one_goes(members, clock):
    first = join(members, "c1")
    clock.turn(TELL_SECONDS)
    second = join(members, "c2")
    assert (first.told, second.told) == ([CHANGED, CHANGED], [CHANGED])
    clock.turn(TELL_SECONDS)
    first.close()
    assert (len(first.told), second.told) == (2, [CHANGED, CHANGED])
    assert [client.client_id for client in members.consumer_group("g").clients.values()] == [
        "c2"
    ]


async def test_a_group_that_wants_no_word_has_none(members):
    assert join(members, "c1", "quiet").told == []


async def test_who_is_silent_for_too_long_is_closed_and_forgotten(members, clock):
    silent = HandClientPeer()
    client = client_of(silent, "p1")
    client.seen = clock.monotonic()
    members.register_producer("asks", client)
    members.expire()
    assert members.producer("p1") is client
    clock.turn(2)
    members.expire()
    assert silent.is_closed
    assert members.producer("p1") is None
    assert members.producer_groups() == []


class GuardedMember:
    """A consumer with a connection of its own."""

    def __init__(self, served: Served, channels: Channels, client_id: str) -> None:
        self.served = served
        self.channels = channels
        self.client_id = client_id

    async def beat(self, expression: str = "*", **more) -> None:
        part = ConsumerPart("g", (parse_subscription("T", expression, version=1),), **more)
        body = encode_heartbeat(Heartbeat(self.client_id, (), (part,)))
        command = Command(RequestCode.HEART_BEAT, body=body)
        await self.channels.call(self.served.broker.address, command, timeout_ms=5_000)


@asynccontextmanager
async def member(served: Served, client_id: str):
    channels = Channels(loop_clock())
    try:
        yield GuardedMember(served, channels, client_id)
    finally:
        await channels.close()


async def conflicts(served: Served, group: str | None = "g") -> tuple[Conflict, ...]:
    fields = {} if group is None else {"consumerGroup": group}
    return decode_conflicts((await served.ask(RequestCode.GET_GROUP_CONFLICTS, fields)).body)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name.endswith("guards")]


async def test_different_subscriptions_are_named_with_both_sides_once(served, caplog):
    caplog.set_level(logging.WARNING)
    async with member(served, "one") as one, member(served, "two") as two:
        for _ in range(3):
            await one.beat("b || a")
            await two.beat("c")
        (found,) = await conflicts(served)
        assert (found.group, found.kind) == ("g", SUBSCRIPTION)
        assert [side.says for side in found.sides] == [
            "CLUSTERING T: a || b",
            "CLUSTERING T: c",
        ]
        assert [side.clients[0].split(" at ")[0] for side in found.sides] == ["one", "two"]
        (line,) = warnings(caplog)
        assert "one at" in line
        assert "T: c" in line
        async with member(served, "three") as three:
            await three.beat("c")
            (found,) = await conflicts(served)
            assert [len(side.clients) for side in found.sides] == [1, 2]
        assert len(warnings(caplog)) == 1, "it is the same contradiction"
        # The same wish in other words is no conflict.
        await two.beat("a||b")
        assert await conflicts(served) == ()
        assert await conflicts(served, None) == ()
        await two.beat("a", model="BROADCASTING")
        (found,) = await conflicts(served, None)
        assert [side.says for side in found.sides] == [
            "BROADCASTING T: a",
            "CLUSTERING T: a || b",
        ]
    assert len(warnings(caplog)) == 2


async def test_two_clients_of_one_id_are_named_and_one_that_reconnected_is_not(served, caplog):
    caplog.set_level(logging.WARNING)
    async with member(served, "same") as old, member(served, "same") as new:
        await old.beat()
        await new.beat()
        await new.beat()
        assert await conflicts(served) == (), "it has a new connection"
        await old.beat()
        (found,) = await conflicts(served)
        assert found.kind == CLIENT_ID
        assert len({side.clients for side in found.sides}) == 2
    assert len(warnings(caplog)) == 1
    assert "several clients have the same client id" in warnings(caplog)[0]


async def test_who_holds_the_queues_of_a_group_is_told(served):
    queue = MessageQueue("TBW102", "broker-a", 0)
    body = encode_lock_request(LockRequest("g", "one", (queue,)))
    await served.ask(RequestCode.LOCK_BATCH_MQ, body=body)
    for fields, told in (
        ({}, {("g", queue): "one"}),
        ({"consumerGroup": "g"}, {("g", queue): "one"}),
        ({"consumerGroup": "other"}, {}),
    ):
        answer = await served.ask(RequestCode.GET_QUEUE_LOCKS, fields)
        assert decode_locks_file(answer.body) == told
