"""A range of a queue, read with several pulls under way from a broker that answers as it likes."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.client.consumer.pull.pulls import PullTerms
from cometmq.client.consumer.pull.range_reader import RangeReader
from cometmq.client.results import PullStatus, RawPull
from cometmq.model.errors import ConnectionLost
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import Subscription
from tests.support.virtual import run_virtually

QUEUE = MessageQueue("T", "b", 0)
PULL_TERMS = PullTerms(Subscription("T"), max_count=32)


class Broker:
    """A queue from `first` to `end` whose pulls give `most()` messages at most."""

    def __init__(self, first: int, end: int, most=lambda: 32) -> None:
        self.first = first
        self.end = end
        self.most = most
        self.asked: list[tuple[int, int]] = []
        self.under_way = self.most_under_way = 0

    async def start(self, _queue, offset: int, ask: PullTerms) -> asyncio.Future:
        self.asked.append((offset, ask.max_count))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        answer = asyncio.get_running_loop().create_future()
        answer.set_result(self.pull(offset, ask.max_count))
        return answer

    def pull(self, offset: int, max_count: int) -> RawPull:
        if offset < self.first:
            return RawPull(PullStatus.OFFSET_ILLEGAL, self.first, self.first, self.end, b"")
        if offset == self.end:
            return RawPull(PullStatus.NO_NEW_MESSAGE, offset, self.first, self.end, b"")
        if offset > self.end:
            return RawPull(PullStatus.OFFSET_ILLEGAL, self.end, self.first, self.end, b"")
        behind = min(offset + max_count, offset + self.most(), self.end)
        body = b",".join(b"%d" % number for number in range(offset, behind))
        return RawPull(PullStatus.FOUND, behind, self.first, self.end, body)

    def read(self, _queue, answer: RawPull) -> RawPull:
        self.under_way -= 1
        return answer


async def read(broker, start: int, end: int, depth: int = 8) -> tuple[list[int], list[RawPull]]:
    reader = RangeReader(broker, QUEUE, start=start, end=end, ask=PULL_TERMS, depth=depth)
    pulls = [pull async for pull in reader.read()]
    return [int(part) for pull in pulls if pull.body for part in pull.body.split(b",")], pulls


async def test_pulls_are_sent_ahead_once_the_end_is_known():
    broker = Broker(0, 1000)
    found, _ = await read(broker, 0, 1000)
    assert found == list(range(1000))
    assert broker.most_under_way == 8
    assert len(broker.asked) == 32


async def test_short_answers_are_asked_for_again_and_steps_follow_them():
    broker = Broker(0, 1000, most=lambda: 8)
    found, _ = await read(broker, 0, 1000)
    assert found == list(range(1000))
    assert len(broker.asked) < 2 * 1000 / 8


async def test_a_range_before_the_first_message_says_so_and_goes_on():
    found, pulls = await read(Broker(500, 600), 0, 600)
    assert (pulls[0].status, pulls[0].next_offset) == (PullStatus.OFFSET_ILLEGAL, 500)
    assert found == list(range(500, 600))


@pytest.mark.parametrize(("start", "end"), [(600, 700), (700, 800), (5, 5), (9, 3)])
async def test_a_range_with_nothing_in_it_ends(start, end):
    found, pulls = await read(Broker(0, 600), start, end)
    assert found == []
    assert all(not pull.body for pull in pulls)


async def test_nothing_is_asked_for_beyond_the_queue_or_the_range():
    broker = Broker(0, 100)
    assert (await read(broker, 0, 10_000))[0] == list(range(100))
    assert all(offset + count <= 100 or offset == 0 for offset, count in broker.asked)
    narrow = Broker(0, 100)
    assert (await read(narrow, 10, 50))[0] == list(range(10, 50))
    assert all(offset + count <= 50 for offset, count in narrow.asked)


@settings(max_examples=60)
@given(
    first=st.integers(0, 50),
    size=st.integers(0, 300),
    start=st.integers(0, 300),
    length=st.integers(0, 300),
    depth=st.integers(1, 8),
    seed=st.integers(),
)
def test_whatever_the_broker_gives_the_range_comes_in_order_once(
    first, size, start, length, depth, seed
):
    chance = random.Random(seed)
    broker = Broker(first, first + size, most=lambda: chance.randint(1, 32))
    found, _ = run_virtually(read(broker, start, start + length, depth))
    assert found == [n for n in range(start, start + length) if first <= n < first + size]


async def test_a_lost_connection_ends_it_with_that_error():
    class Gone(Broker):
        async def start(self, queue, offset, ask):
            answer = await super().start(queue, offset, ask)
            if offset < 100:
                return answer
            lost = asyncio.get_running_loop().create_future()
            lost.set_exception(ConnectionLost("gone"))
            return lost

    with pytest.raises(ConnectionLost):
        await read(Gone(0, 1000), 0, 1000)
