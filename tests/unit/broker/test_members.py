"""Groups know their members, and members hear of each other."""

from __future__ import annotations

import json

import pytest

from cometmq.codec.bodies.connection import decode_consumer_connections
from cometmq.codec.bodies.consumer import decode_consumer_ids
from cometmq.codec.bodies.heartbeat import ConsumerPart
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.net.loop import loop_clock
from tests.unit.broker.conftest import eventually
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
