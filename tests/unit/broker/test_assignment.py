"""A broker that shares queues out: which, to whom, and whether they are pulled or popped."""

from __future__ import annotations

import json

import pytest

from cometmq.broker.pop.assignment import ROUTE_SECONDS, Assignments
from cometmq.codec.bodies.assignment import (
    POP,
    PULL,
    AssignmentQuery,
    RequestModeConfig,
    decode_assignments,
    encode_assignment_query,
    encode_request_mode,
)
from cometmq.codec.bodies.heartbeat import BROADCASTING, ConsumerPart
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.queue import MessageQueue
from cometmq.model.shares import allocate_for_pop
from cometmq.model.topic import TopicConfig
from cometmq.steps.steps import Steps
from tests.support.steps import run
from tests.unit.broker.conftest import serve
from tests.unit.broker.member import beat_of, wishes
from tests.unit.broker.parts_by_hand import load_tables, parts_by_hand

QUERY, SET = RequestCode.QUERY_ASSIGNMENT, RequestCode.SET_MESSAGE_REQUEST_MODE
QUEUES = [MessageQueue("Orders", "broker-a", number) for number in range(4)]


async def join(served, client_id="c1"):
    body = beat_of(ConsumerPart("g", wishes("Orders")), client_id=client_id)
    await served.ask(RequestCode.HEART_BEAT, body=body)
    await served.send(b"makes the topic", properties={"UNIQ_KEY": "K"})


async def ask(served, **more):
    query = AssignmentQuery(**{"topic": "Orders", "group": "g", "client_id": "c1", **more})
    answer = await served.done(QUERY, body=encode_assignment_query(query))
    return decode_assignments(answer.body)


@pytest.mark.parametrize("strategy", ["AVG", "AVG_BY_CIRCLE"])
async def test_a_member_alone_pulls_all_queues(served, strategy):
    await join(served)
    found = await ask(served, strategy=strategy)
    assert [(each.queue, each.mode) for each in found] == [(queue, PULL) for queue in QUEUES]


async def test_who_is_no_member_or_asks_for_an_unknown_strategy_keeps_what_it_has(served):
    assert await ask(served) is None
    await join(served)
    assert await ask(served, strategy="MINE") is None
    assert await ask(served, client_id="stranger") == []
    assert len(await ask(served, model="BROADCASTING", client_id="stranger")) == 4


async def test_a_mode_is_kept_and_turns_pulls_into_pops(tmp_path):
    config = RequestModeConfig("Orders", "g", POP, 8)
    async with serve(tmp_path) as served:
        await join(served)
        await served.done(SET, body=encode_request_mode(config))
        (only,) = await ask(served)
        assert (only.queue.queue_id, only.mode) == (-1, POP)
    async with serve(tmp_path) as served:
        await join(served)
        (only,) = await ask(served)
        assert only.mode == POP
    written = json.loads((tmp_path / "config" / "messageRequestMode.json").read_text())
    assert written["messageRequestModeMap"]["Orders"]["g"]["popShareQueueNum"] == 8


@pytest.mark.parametrize(("topic", "code"), [("%RETRY%g", 16), ("Nobody", 17)])
async def test_a_mode_is_refused_where_it_has_no_place(served, topic, code):
    config = RequestModeConfig(topic, "g", POP)
    assert (await served.ask(SET, body=encode_request_mode(config))).code == code


@pytest.mark.parametrize("bad", [b"", b"[]", b"{", b'{"topic":5}'])
async def test_bodies_that_mean_nothing_are_refused(served, bad):
    for code in (QUERY, SET):
        assert (await served.ask(code, body=bad)).code == ResponseCode.INVALID_PARAMETER


def ids(share):
    return [queue.queue_id for queue in share]


def test_shares_for_pop_are_those_of_java():
    members = ["c1", "c2", "c3", "c4"]
    assert ids(allocate_for_pop(QUEUES, members, "c1", 0)) == [-1]
    assert ids(allocate_for_pop(QUEUES, members, "c1", 3)) == [-1]
    assert ids(allocate_for_pop(QUEUES, members, "c1", 1)) == [0, 1]
    assert ids(allocate_for_pop(QUEUES, members, "c4", 2)) == [3, 0, 1]
    assert ids(allocate_for_pop(QUEUES, [*members, "c5", "c6"], "c6", 1)) == [1]
    assert ids(allocate_for_pop(QUEUES, members, "stranger", 1)) == []


async def test_all_modes_are_given_to_who_copies_them(served):
    await join(served)
    ask_all = RequestCode.GET_ALL_MESSAGE_REQUEST_MODE
    assert json.loads((await served.ask(ask_all)).body) == {"messageRequestModeMap": {}}
    config = RequestModeConfig("Orders", "g", POP, 2)
    await served.ask(SET, body=encode_request_mode(config))
    told = json.loads((await served.ask(ask_all)).body)
    assert told["messageRequestModeMap"]["Orders"]["g"] == {
        "consumerGroup": "g", "mode": "POP", "popShareQueueNum": 2, "topic": "Orders",
    }  # fmt: skip


async def test_a_route_is_believed_for_a_while_and_own_queues_are_given_without_one(
    tmp_path, clock
):
    asked: list[str] = []
    routes = [QUEUES[:3], QUEUES[:2], None]

    def ask_route(topic: str) -> Steps[list[MessageQueue] | None]:
        asked.append(topic)
        yield from ()
        return routes[len(asked) - 1]

    with parts_by_hand(tmp_path, clock) as parts:
        load_tables(parts)
        await parts.topics.put(TopicConfig("Orders", 1, 1))
        shares = Assignments(parts, ask_route)
        query = AssignmentQuery("Orders", "g", "c1", model=BROADCASTING)
        counts = []
        for seconds in (0.0, ROUTE_SECONDS - 0.1, 0.1, ROUTE_SECONDS):
            clock.turn(seconds)
            share = await run(shares.assign(query))
            counts.append(len(share or ()))
        await parts.topics.saver.close()
    assert (counts, asked) == ([3, 3, 2, 1], ["Orders"] * 3)
