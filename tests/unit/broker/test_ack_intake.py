"""Acknowledgements in front of all else of their connection are taken as bytes, and are what they are as commands."""

from __future__ import annotations

import asyncio

import pytest

from cometmq.broker.pop.requests import AckBatch
from cometmq.codec.remoting import Command, encode_command
from cometmq.model.codes import ResponseCode
from cometmq.model.flags import ONEWAY
from tests.unit.broker.test_pop import ACK, bodies, handles, names, pop, send
from tests.unit.broker.test_pull_intake import Asking, place_of

UNKNOWN = 9999


@pytest.fixture
async def asking(served, monkeypatch):
    """A connection by hand; `taken` says how many acknowledgements each read's look at it found."""
    reader, writer = await asyncio.open_connection(*place_of(served))
    one = Asking(reader, writer, [])
    take = AckBatch.take_frames

    def taken(self: AckBatch, *given: object) -> tuple[int, int]:
        position, count = take(self, *given)  # type: ignore[arg-type]
        if b'"code":200051,' in given[0]:  # type: ignore[operator]
            one.taken.append(count)  # type: ignore[arg-type]
        return position, count

    monkeypatch.setattr(AckBatch, "take_frames", taken)
    yield one
    writer.close()


def ack(handle: str, opaque: int, *, flag: int = 0, **more: object) -> bytes:
    return encode_command(Command(int(ACK), flag, opaque, fields=names(handle, **more)))


async def both_ways(asking: Asking, frames: list[bytes]) -> list[bytes]:
    """The answers to requests that come alone; behind another one they are the same."""
    alone = await asking.ask(b"".join(frames), len(frames))
    before = encode_command(Command(UNKNOWN, opaque=99))
    slow = await asking.ask(before + b"".join(frames), len(frames) + 1)
    assert sorted(alone) == sorted(slow[1:])
    return alone


async def test_what_is_acknowledged_at_once_does_not_come_again(served, asking):
    await send(served, *(b"%d" % number for number in range(9)))
    given = handles(await pop(served, invisibleTime=600))
    frames = [ack(handle, opaque) for opaque, handle in enumerate(given[1:])]
    answers = await asking.ask(b"".join(frames), 8)
    assert all(b'"code":0,' in answer for answer in answers)
    assert asking.taken == [8]
    again = await pop(served, pollTime=10_000)
    assert bodies(again) == [b"0"]
    assert served.broker._counters.acks.of("Orders", "g").count == 8


async def test_the_answers_are_those_of_commands(served, asking):
    await send(served, b"1", b"2", b"3")
    given = handles(await pop(served))
    answers = await both_ways(asking, [ack(handle, at) for at, handle in enumerate(given)])
    assert len(answers) == 3
    assert asking.taken[0] == 3


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"offset": 9}, ResponseCode.NO_MESSAGE),
        ({"topic": "Nothing"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queueId": 9}, ResponseCode.MESSAGE_ILLEGAL),
        ({"queueId": "x"}, ResponseCode.INVALID_PARAMETER),
        ({"extraInfo": "1 2"}, ResponseCode.INVALID_PARAMETER),
        ({"consumerGroup": "other"}, ResponseCode.SUCCESS),
    ],
)
async def test_one_that_is_not_plain_is_left_with_all_behind_it(served, asking, more, code):
    await send(served, b"1", b"2", b"3")
    first, second, third = handles(await pop(served))
    frames = [ack(first, 1), ack(second, 2, **more), ack(third, 3)]
    answers = await both_ways(asking, frames)
    assert asking.taken[0] == 1
    codes = [
        b'"code":%d,' % code in answer[:40] for answer in answers if b'"opaque":2,' in answer
    ]
    assert codes == [True]
    assert sum(b'"code":0,' in answer[:40] for answer in answers) == 2 + (code == 0)


async def test_one_that_wants_no_answer_gets_none(served, asking):
    await send(served, b"1", b"2")
    first, second = handles(await pop(served, invisibleTime=600))
    (answer,) = await asking.ask(ack(first, 1, flag=ONEWAY) + ack(second, 2))
    assert b'"opaque":2,' in answer
    assert asking.taken == [2]
    assert (await pop(served, pollTime=1_500)).code == ResponseCode.POLLING_TIMEOUT


async def test_what_stands_in_front_comes_first(served, asking):
    """An acknowledgement behind another request is none of the intake's."""
    await send(served, b"1")
    (handle,) = handles(await pop(served))
    unknown = encode_command(Command(UNKNOWN, opaque=5))
    answers = await asking.ask(unknown + ack(handle, 6), 2)
    assert not sum(asking.taken)
    assert [b'"opaque":5,' in answers[0], b'"opaque":6,' in answers[1]] == [True, True]
