"""Groups know their members, and members hear of each other."""

from __future__ import annotations

import json

import pytest

from cometmq.codec.bodies.connection import decode_consumer_connections
from cometmq.codec.bodies.consumer import decode_consumer_ids
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.net.channels import Channels
from cometmq.net.loop import loop_clock
from tests.unit.broker.conftest import eventually


def heartbeat(client_id, topics=("Orders",), producers=()):
    subscriptions = [
        {"topic": topic, "subString": "*", "subVersion": 1, "expressionType": "TAG"}
        for topic in topics
    ]
    consumer = {
        "groupName": "g", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": subscriptions,
    }  # fmt: skip
    return json.dumps(
        {
            "clientID": client_id,
            "consumerDataSet": [consumer] if topics else [],
            "producerDataSet": [{"groupName": name} for name in producers],
        }
    ).encode()


class Client:
    """A client of its own connection, that keeps what the broker tells it."""

    def __init__(self, served, name):
        self.served, self.name, self.told = served, name, []
        self.channels = Channels(loop_clock(), on_request=self._take)

    def _take(self, command, _channel):
        self.told.append((command.code, command.fields))

    async def beat(self, **more):
        command = Command(RequestCode.HEART_BEAT, body=heartbeat(self.name, **more))
        return await self.channels.call(self.served.broker.address, command)

    async def hears(self, count):
        await eventually(lambda: len(self.told) >= count)
        return self.told


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
    answer = await first.beat()
    assert answer.fields["IS_SUPPORT_HEART_BEAT_V2"] == "true"
    await first.hears(1)
    await second.beat()
    assert (await first.hears(2))[1] == (40, {"consumerGroup": "g"})
    assert await ids(served) == ("c1", "c2")
    await second.channels.close()
    await first.hears(3)
    assert await ids(served) == ("c1",)


async def test_a_heartbeat_that_changes_nothing_tells_nobody(served, two):
    first, _ = two
    await first.beat()
    await first.hears(1)
    await first.beat()
    await first.beat(topics=("Orders", "Other"))
    assert len(await first.hears(2)) == 2


async def test_a_client_that_leaves_is_gone_at_once(served, two):
    first, _ = two
    await first.beat(producers=("p",))
    fields = {"clientID": "c1", "producerGroup": "p", "consumerGroup": "g"}
    await first.channels.call(
        served.broker.address, Command(RequestCode.UNREGISTER_CLIENT, fields=fields)
    )
    assert await ids(served) == ()
    answer = await served.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"})
    assert answer.code == ResponseCode.CONSUMER_NOT_ONLINE
    answer = await served.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "p"})
    assert answer.code == ResponseCode.SYSTEM_ERROR


async def test_all_producers_are_told_with_their_last_heartbeat(served, two):
    first, second = two
    await first.beat(producers=("p", "q"))
    await second.beat(producers=("p",))
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
    await first.beat()
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
    await first.beat()
    members = served.broker._members
    for client in members.consumer_group("g").clients.values():
        client.seen -= 121
    members.expire()

    async def is_gone():
        return await ids(served) == ()

    await eventually(is_gone)
