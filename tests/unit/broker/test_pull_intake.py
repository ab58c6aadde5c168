"""Pulls that come alone are answered before they are commands, byte for byte as those that become commands."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cometmq.broker.pull import fast_path, found_pulls
from cometmq.broker.pull.fast_path import PullIntake
from cometmq.codec.remoting import Command, encode_command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.net import turn
from cometmq.net.requests import Write
from tests.support.request_fields import pull_fields
from tests.unit.broker.conftest import Served, serve
from tests.unit.broker.test_pulls import heartbeat, send

PULL, UNKNOWN = RequestCode.PULL_MESSAGE, 9999
COMMITS, SUBSCRIBED = 1, 4


def place_of(served: Served) -> tuple[str, int]:
    """Where a broker listens."""
    host, _, port = served.broker.address.rpartition(":")
    return host, int(port)


class Asking:
    """A connection by hand, and what the intake took of it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, taken: list[bool]
    ) -> None:
        self.reader, self.writer, self.taken = reader, writer, taken

    async def ask(self, data: bytes, count: int = 1) -> list[bytes]:
        """Send some requests with one write, and give as many answers."""
        self.writer.write(data)
        answers = []
        for _ in range(count):
            prefix = await self.reader.readexactly(4)
            answers.append(prefix + await self.reader.readexactly(int.from_bytes(prefix)))
        return answers

    async def both_ways(self, fields: dict[str, str], opaque: int = 7) -> bytes:
        """Send a pull alone, then with another request, so that it becomes a command; its answers are the same."""
        pull = encode_command(Command(int(PULL), opaque=opaque, fields=fields))
        alone = await self.ask(pull)
        slow = await self.ask(encode_command(Command(UNKNOWN, opaque=opaque + 1)) + pull, 2)
        assert alone[0] in slow
        return alone[0]


@pytest.fixture(autouse=True)  # A broker keeps the method that it finds when it is made.
def taken(monkeypatch):
    """Of each pull that an intake is shown from now on whether it answers it."""
    real_asked, real_answer, some = PullIntake._asked, PullIntake._answer, []

    def asked(self: PullIntake, data: bytes) -> Any:
        found = real_asked(self, data)
        if found is None:
            some.append(False)
        return found

    def answer(self: PullIntake, pull: Any, write: Write) -> int:
        size = real_answer(self, pull, write)
        some.append(size > 0)
        return size

    monkeypatch.setattr(PullIntake, "_asked", asked)
    monkeypatch.setattr(PullIntake, "_answer", answer)
    return some


@asynccontextmanager
async def ask_by_hand(served: Served, taken: list[bool]) -> AsyncIterator[Asking]:
    """A connection by hand to a broker."""
    reader, writer = await asyncio.open_connection(*place_of(served))
    yield Asking(reader, writer, taken)
    writer.close()


@pytest.fixture
async def asking(taken, served):
    async with ask_by_hand(served, taken) as one:
        yield one


async def test_a_pull_that_finds_messages_is_taken_and_answered_alike(served, asking):
    await send(served, 40, tag="A")
    await send(served, 3, tag="B")
    kinds = [
        {}, {"offset": 5}, {"maxMsgNums": "3"}, {"maxMsgNums": "0"}, {"maxMsgBytes": "500"},
        {"subscription": "B"}, {"subscription": ""}, {"sysFlag": str(COMMITS | SUBSCRIBED), "commitOffset": "9"},
    ]  # fmt: skip
    for opaque, more in zip(itertools.count(-2), kinds, strict=False):
        answer = await asking.both_ways(pull_fields("Orders", **more), opaque)  # type: ignore[arg-type]
        assert b'"code":0,' in answer[:30]
    assert asking.taken.count(True) == len(kinds)
    assert served.broker._offsets.get("g", "Orders", 0) == 9
    # What it counts is the same on both ways: half of the pulls were commands.
    assert served.broker._counters.found == 2 * len(kinds)


async def test_what_is_got_is_counted_of_its_queue_however_many_queues_a_header_reads(
    served, asking, monkeypatch
):
    monkeypatch.setattr(found_pulls, "TALLIES_MAX", 1)
    for queue_id in (0, 1, 2):
        await send(served, 2 + queue_id, queue_id=queue_id)
    for _ in range(3):
        for queue_id in (0, 1, 2):
            await asking.both_ways(pull_fields("Orders") | {"queueId": str(queue_id)})
    gets = served.broker._counters.gets
    tallies = [gets.get("Orders", "g", queue_id) for queue_id in (0, 1, 2)]
    assert [(tally.count, tally.times) for tally in tallies] == [(12, 6), (18, 6), (24, 6)]
    assert asking.taken.count(True) == 9


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"offset": 5}, ResponseCode.PULL_NOT_FOUND),
        ({"offset": 77}, ResponseCode.PULL_OFFSET_MOVED),
        ({"queueId": "9"}, ResponseCode.INVALID_PARAMETER),
        ({"queueId": "-1"}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "Nothing"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"subscription": "||"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"sysFlag": "0"}, ResponseCode.SUBSCRIPTION_NOT_EXIST),
        (
            {"subscription": "a = b", "expressionType": "SQL92"},
            ResponseCode.SUCCESS,
        ),
        ({"queueOffset": "x"}, ResponseCode.INVALID_PARAMETER),
        ({"consumerGroup": 'a"b'}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
    ],
)
async def test_what_is_not_found_at_once_is_left(served, asking, more, code):
    await send(served, 5)
    answer = await asking.both_ways(pull_fields("Orders") | {"queueOffset": str(more.pop("offset", 0))} | more)  # fmt: skip
    assert b'"code":%d,' % code in answer[:30]
    assert True not in asking.taken


FILTERS = [
    ("TAG", "A"), ("TAG", "A || C"), ("TAG", "Z"), ("SQL92", "a = 1"), ("SQL92", "a > 2 AND TAGS = 'A' OR a = 0"),
    ("SQL92", "a = 2.0 OR a IS NULL"), ("SQL92", "a = 77"), ("SQL92", "a NOT IN ('1','2') AND NOT (TAGS = 'B')"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "expression"), FILTERS)
async def test_a_filter_gives_the_same_messages_or_that_there_are_none(
    served, asking, kind, expression
):
    for number in range(45):
        await send(
            served, tag="ABC"[number % 3], **({"a": str(number % 4)} if number % 7 else {})
        )
    for more in ({}, {"maxMsgNums": "3"}, {"maxMsgBytes": "500"}, {"offset": 40}):
        fields = pull_fields("Orders", subscription=expression, expressionType=kind, **more)
        await asking.both_ways(fields)  # The slow path compiles an expression.
        asking.taken.clear()
        answer = await asking.both_ways(fields)
        assert asking.taken[0]
        if expression in ("Z", "a = 77"):
            assert b'"code":%d,' % ResponseCode.PULL_RETRY_IMMEDIATELY in answer[:30]
            assert b'"nextBeginOffset":"45"' in answer
            assert b'"remark":"NO_MATCHED_MESSAGE"' in answer
        else:
            assert b'"code":%d,' % ResponseCode.SUCCESS in answer[:30]
    counters = served.broker._counters
    assert (counters.missed > 0) == (expression in ("Z", "a = 77"))


async def test_a_value_that_is_not_written_plainly_leaves_the_pull_to_the_slow_path(
    served, asking
):
    await send(served, 5, a="1")
    await send(served, a="+1")
    fields = pull_fields("Orders", subscription="a = 1", expressionType="SQL92")
    await asking.both_ways(fields)
    asking.taken.clear()
    answer = await asking.both_ways(fields)
    assert answer.count(b"UNIQ_KEY") == 6
    assert True not in asking.taken


GROUP = {"groupName": "g", "brokerId": 0, "whichBrokerWhenConsumeSlowly": 1}
QUEUES = {"topic": "Orders", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6"}
LEAVING = {"clientID": "c1", "consumerGroup": "g"}
CONFIGURED = RequestCode.UPDATE_BROKER_CONFIG
TOPIC_SET, GROUP_SET = (
    RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
)  # fmt: skip
OF_GROUP = {"sysFlag": "0", "subVersion": "1"}

# What is asked in between, the pull, and what its answer says before and after that.
CHANGES = {
    "topic perm": ((TOPIC_SET, QUEUES | {"perm": "2"}), {}, b'"code":16,'),
    "fewer queues": (
        (TOPIC_SET, QUEUES | {"readQueueNums": "1", "writeQueueNums": "1"}),
        {"queueId": "1"}, b'"code":29,',
    ),
    "topic gone": ((RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Orders"}), {}, b'"code":17,'),
    "group may not": (
        (GROUP_SET, {}, json.dumps(GROUP | {"consumeEnable": False}).encode()), {}, b'"code":16,',
    ),
    "group gone": (
        (RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g"}), {}, b'"code":26,',
    ),
    "topic flag": ((TOPIC_SET, QUEUES | {"topicSysFlag": "3"}), {}, b'"topicSysFlag":"3"'),
    "group flag": (
        (GROUP_SET, {}, json.dumps(GROUP | {"groupSysFlag": 5}).encode()), {}, b'"groupSysFlag":"5"',
    ),
    "another broker": (
        (GROUP_SET, {}, json.dumps(GROUP | {"brokerId": 2}).encode()),
        {}, b'"suggestWhichBrokerId":"2"',
    ),
    "broker perm": ((CONFIGURED, {}, b"brokerPermission=2\n"), {}, b'"code":16,'),
    "limits": (
        (CONFIGURED, {}, b"maxTransferCountOnMessageInMemory=2\n"), {}, b'"nextBeginOffset":"2"',
    ),
    "other tags": (
        (RequestCode.HEART_BEAT, {}, heartbeat("B", 2)), OF_GROUP, b'"code":20,',
    ),
    "broadcast": (
        (RequestCode.HEART_BEAT, {}, heartbeat(model="BROADCASTING")), OF_GROUP, b'"code":16,',
    ),
    "nobody is left": ((RequestCode.UNREGISTER_CLIENT, LEAVING), OF_GROUP, b'"code":24,'),
    "forbidden": (
        (RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
         {"group": "g", "topic": "Orders", "readable": "false"}), OF_GROUP, b'"code":16,',
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
async def test_what_changes_holds_for_the_very_next_pull(tmp_path, taken, what):
    """A header is known from the pull before, and what it may do, for as long as nothing of that has changed."""
    change, fields, told = CHANGES[what]
    async with (
        serve(tmp_path / "store", is_slave_read=True, is_group_auto_created=False) as served,
        ask_by_hand(served, taken) as asking,
    ):
        may_not_broadcast = json.dumps(GROUP | {"consumeBroadcastEnable": False}).encode()
        await served.done(GROUP_SET, body=may_not_broadcast)
        await served.done(RequestCode.HEART_BEAT, body=heartbeat("A"))
        for queue_id in (0, 1):
            await send(served, 5, tag="A", queue_id=queue_id)
        fields = pull_fields("Orders") | fields
        pull = encode_command(Command(int(PULL), opaque=7, fields=fields))
        asking.taken.clear()
        for _ in range(3):
            (found,) = await asking.ask(pull)
            assert found.startswith(b'{"code":0,', 8)
            assert told not in found
        assert asking.taken == [True] * 3
        await served.done(*change)
        assert told in await asking.both_ways(fields)


async def test_a_reset_is_told_by_the_next_pull(served, asking):
    await send(served, 5)
    pull = encode_command(Command(int(PULL), fields=pull_fields("Orders")))
    assert (await asking.ask(pull))[0].startswith(b'{"code":0,', 8)
    served.broker._offsets.reset("g", "Orders", 0, offset=3)
    (told,) = await asking.ask(pull)
    assert told.startswith(b'{"code":21,', 8)
    assert b'"nextBeginOffset":"3"' in told
    assert (await asking.ask(pull))[0].startswith(b'{"code":0,', 8)
    assert asking.taken.count(True) == 2


@pytest.mark.parametrize("is_topic", [True, False])
async def test_a_queue_that_is_gone_and_there_again_is_another_one(served, asking, is_topic):
    """With its topic; or alone, as at a slave whose master has it no more."""
    await send(served, 5)
    pull = encode_command(Command(int(PULL), fields=pull_fields("Orders")))
    assert b'"maxOffset":"5"' in (await asking.ask(pull))[0]
    store = served.broker._store
    if is_topic:
        await served.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Orders"})
    else:
        store.delete_queue(store.queue("Orders", 0))
        served.broker._lanes.forget("Orders")  # Of senders, which a slave has not.
        assert b'"maxOffset":"0"' in await asking.both_ways(pull_fields("Orders"))
    await send(served, 2)
    asking.taken.clear()
    answers = [(await asking.ask(pull))[0] for _ in range(2)]
    assert [b'"maxOffset":"2"' in answer for answer in answers] == [True] * 2
    assert asking.taken[-1]


async def test_a_turn_answers_so_many_bytes_and_the_rest_becomes_commands(
    served, asking, monkeypatch
):
    """Its answers are copied before anybody looks at the clock, so their bytes are bounded; the next turn begins anew."""
    await send(served, 5)
    asking.taken.clear()
    monkeypatch.setattr(turn, "AHEAD_SIZE_MAX", 0)
    served.broker._server.turn.ahead_size = 0
    pull = encode_command(Command(int(PULL), fields=pull_fields("Orders")))
    monkeypatch.setattr(fast_path, "TURN_SIZE_MAX", 1)
    answers = [await asking.ask(pull) for _ in range(3)]
    assert asking.taken == [True] * 3
    monkeypatch.setattr(fast_path, "TURN_SIZE_MAX", 0)
    answers.append(await asking.ask(pull))
    assert asking.taken == [True] * 3  # It was not asked any more.
    assert len({answer for (answer,) in answers}) == 1


async def test_pulls_of_one_connection_after_another_are_answered_ahead_of_their_turn(
    served, asking
):
    """Answers are those of a turn, byte for byte, and count as those; what finds nothing waits as it does there."""
    await send(served, 5)
    turns = served.broker._server.turn
    turns.lone_reads = 0  # The first of them joins a turn.
    found = served.broker._counters.found
    pull = encode_command(Command(int(PULL), fields=pull_fields("Orders")))
    answers = [await asking.ask(pull) for _ in range(9)]
    assert len({answer for (answer,) in answers}) == 1
    assert served.broker._counters.found == found + 9
    head_size = 8 + int.from_bytes(answers[0][0][5:8])
    entries = 5 * 20  # Bytes that were looked at besides.
    ahead = 8 * (len(answers[0][0]) - head_size + entries + turn.AHEAD_COST)
    assert turns.ahead_size == turn.AHEAD_SIZE_MAX - ahead
    late = pull_fields("Orders", offset=5) | {"sysFlag": "6", "suspendTimeoutMillis": "20000"}
    waiting = asyncio.create_task(asking.ask(encode_command(Command(int(PULL), fields=late))))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await send(served, 1)
    assert (await waiting)[0].startswith(b'{"code":0,', 8)


async def test_pulls_that_come_together_are_answered_alike_up_to_one_that_must_wait(
    served, asking, monkeypatch
):
    """A consumer of some queues asks for all of them at once; what is behind a pull that is left is left, too."""
    await send(served, 40)
    pulls = [
        encode_command(
            Command(int(PULL), opaque=n, fields=pull_fields("Orders", offset=offset))
        )
        for n, offset in enumerate((0, 7, 30, 40, 2))
    ]
    alone = [(await asking.ask(pull))[0] for pull in pulls]
    taken: list[int] = []
    some = PullIntake._take_some

    def counted(self: PullIntake, *given: object) -> tuple[int, int]:
        place, count = some(self, *given)  # type: ignore[arg-type]
        taken.append(count)
        return place, count

    monkeypatch.setattr(PullIntake, "_take_some", counted)
    assert await asking.ask(b"".join(pulls[:3]), 3) == alone[:3]
    assert await asking.ask(b"".join(pulls), 5) == alone
    half = len(pulls[1]) // 2
    assert await asking.ask(pulls[0] + pulls[1][:half], 1) == alone[:1]
    assert await asking.ask(pulls[1][half:] + pulls[2], 2) == alone[1:3]
    assert taken == [3, 3, 1, 2]
    entries = 32 * 20  # Bytes that count besides the messages.
    monkeypatch.setattr(fast_path, "TURN_SIZE_MAX", len(alone[0]) + entries + 1)
    assert await asking.ask(b"".join(pulls), 5) == alone
    assert taken == [3, 3, 1, 2, 2]
