"""Pulls that wait at the end of a queue are held before they are commands, and are answered as those that become commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from cometmq.broker.pull.found_pulls import FoundPulls
from cometmq.broker.tables import long_polls
from cometmq.codec.remoting import Command, encode_command
from cometmq.model.codes import RequestCode, ResponseCode
from tests.unit.broker.conftest import Served, eventually
from tests.unit.broker.test_pull_intake import COMMITS, PULL, SUBSCRIBED, UNKNOWN, place_of
from tests.unit.broker.test_pulls import SUSPEND, send, waiting_fields

OPAQUE = 7


@pytest.fixture
def held(monkeypatch):
    """Of each pull that the fast path is asked to hold from now on whether it does."""
    hold, some = FoundPulls.hold, []

    def noted(self: FoundPulls, *given: object) -> bool:
        some.append(hold(self, *given))  # type: ignore[arg-type]
        return some[-1]

    monkeypatch.setattr(FoundPulls, "hold", noted)
    return some


class Waiting:
    """A connection by hand with a pull."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def answer(self) -> bytes:
        prefix = await self.reader.readexactly(4)
        return prefix + await self.reader.readexactly(int.from_bytes(prefix))


Connect = Callable[[], Awaitable[Waiting]]


@pytest.fixture
async def connect(served) -> AsyncIterator[Connect]:
    """Opens connections, which are closed in the end."""
    opened: list[Waiting] = []

    async def open_one() -> Waiting:
        opened.append(Waiting(*await asyncio.open_connection(*place_of(served))))
        return opened[-1]

    yield open_one
    for one in opened:
        one.writer.close()


async def pull_both_ways(connect: Connect, fields: dict[str, str]) -> list[Waiting]:
    """Send a pull alone, and on another connection with another request, so that it becomes a command."""
    pull = encode_command(Command(int(PULL), opaque=OPAQUE, fields=fields))
    ways = []
    for data in (pull, encode_command(Command(UNKNOWN)) + pull):
        way = await connect()
        way.writer.write(data)
        if data is not pull:
            await way.answer()  # Of the unknown one.
        ways.append(way)
    return ways


Act = Callable[[Served], Awaitable[object]]


async def a_message(served: Served) -> None:
    await send(served, tag="A")


async def other_tags_first(served: Served) -> None:
    await send(served, 3, tag="B")
    await asyncio.sleep(0.05)
    assert len(served.broker._polls) == 2
    await send(served, tag="A")


async def the_topic_goes(served: Served) -> None:
    await served.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Orders"})


async def the_group_goes(served: Served) -> None:
    await served.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g"})


async def nothing(_served: Served) -> None:
    pass


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("more", "act", "code"),
    [
        ({}, a_message, ResponseCode.SUCCESS),
        ({"maxMsgNums": "1"}, a_message, ResponseCode.SUCCESS),
        ({"subscription": "A || C"}, other_tags_first, ResponseCode.SUCCESS),
        ({"subscription": "A", "maxMsgBytes": "10"}, other_tags_first, ResponseCode.SUCCESS),
        ({"suspendTimeoutMillis": "100"}, nothing, ResponseCode.PULL_NOT_FOUND),
        ({}, the_topic_goes, ResponseCode.TOPIC_NOT_EXIST),
        ({}, the_group_goes, None),
    ],
)
async def test_a_held_pull_is_answered_alike(served, connect, held, more, act, code):
    await send(served)
    fast, slow = await pull_both_ways(connect, waiting_fields(**more))
    if act is not nothing:
        await eventually(lambda: len(served.broker._polls) == 2)
        await act(served)
    answers = [await fast.answer(), await slow.answer()]
    assert answers[0] == answers[1]
    assert code is None or b'"code":%d,' % code in answers[0][:30]
    assert held[0] is True
    assert len(served.broker._polls) == 0
    counters = served.broker._counters
    assert counters.found == (2 if code == ResponseCode.SUCCESS else 0)


@pytest.mark.compiled
async def test_what_a_held_pull_commits_is_committed_once_and_at_once(served, connect, held):
    await send(served, 3)
    flags = str(COMMITS | SUSPEND | SUBSCRIBED)
    fields = waiting_fields(3, sysFlag=flags, commitOffset="2")
    pull = encode_command(Command(int(PULL), opaque=OPAQUE, fields=fields))
    way = await connect()
    way.writer.write(pull)
    await eventually(lambda: len(served.broker._polls) == 1)
    offsets = served.broker._offsets
    assert offsets.get("g", "Orders", 0) == 2
    offsets.commit("g", "Orders", 0, offset=3)
    await send(served)
    assert b'"code":0,' in (await way.answer())[:30]
    assert offsets.get("g", "Orders", 0) == 3
    assert held == [True]


@pytest.mark.compiled
@pytest.mark.parametrize(
    "more",
    [
        {"offset": 2}, {"sysFlag": str(SUBSCRIBED)}, {"suspendTimeoutMillis": "0"}, {"queueId": "3"},
        {"subscription": "a = 1", "expressionType": "SQL92", "suspendTimeoutMillis": "50"},
    ],
)  # fmt: skip
async def test_what_is_not_at_the_end_or_must_not_wait_is_left(served, connect, held, more):
    await send(served)
    fields = waiting_fields(int(more.pop("offset", 1)), **more) | more
    fast, slow = await pull_both_ways(connect, fields)
    assert await fast.answer() == await slow.answer()
    assert True not in held


@pytest.mark.compiled
async def test_where_too_many_wait_the_slow_path_refuses(served, connect, held, monkeypatch):
    await send(served)
    monkeypatch.setattr(long_polls, "HELD_MAX", 0)
    fast, slow = await pull_both_ways(connect, waiting_fields())
    answer = await fast.answer()
    assert answer == await slow.answer()
    assert b'"code":%d,' % ResponseCode.SYSTEM_BUSY in answer[:30]
    assert served.broker._polls.refused == 2
    assert held == [False]


@pytest.mark.compiled
async def test_pulls_of_several_queues_wait_together_and_their_memory_goes_with_them(
    served, connect, held
):
    """What a consumer of some queues sends at once; one has a message, the others wait."""
    for queue_id in range(3):
        await send(served, queue_id=queue_id)
    pulls = [
        encode_command(
            Command(int(PULL), opaque=n, fields=waiting_fields(offset) | {"queueId": str(n)})
        )
        for n, offset in enumerate((1, 0, 1))
    ]
    way = await connect()
    way.writer.write(b"".join(pulls))
    assert b'"opaque":1,' in await way.answer()
    polls = served.broker._polls
    await eventually(lambda: len(polls) == 2)
    await send(served, queue_id=2)
    assert b'"opaque":2,' in await way.answer()
    way.writer.close()
    await eventually(lambda: len(polls) == 1)
    await send(served, queue_id=0)  # Nobody is there any more.
    await eventually(lambda: not len(polls))
    assert polls._bounds._size == 0
    assert held.count(True) == 2
