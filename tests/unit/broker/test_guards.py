"""Members of a group that contradict each other are named: once in the log, always to who asks."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager

import pytest

from cometmq.codec.bodies.conflicts import CLIENT_ID, SUBSCRIPTION, Conflict, decode_conflicts
from cometmq.codec.bodies.heartbeat import ConsumerPart, Heartbeat, encode_heartbeat
from cometmq.codec.bodies.lock import LockRequest, decode_locks_file, encode_lock_request
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import parse_subscription
from cometmq.net.channels import Channels
from cometmq.net.loop import loop_clock
from tests.unit.broker.conftest import Served


class Member:
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
        yield Member(served, channels, client_id)
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
