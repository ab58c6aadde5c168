"""A range of a queue, read with several pulls under way from a broker that answers as it likes."""

import asyncio
import random
from collections.abc import AsyncGenerator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.client.consumer.pull.pulls import PullTerms
from cometmq.client.consumer.pull.range_reader import BrokerGroupMembers, RangeReader
from cometmq.client.consumer.pull.read_from import ReadFrom
from cometmq.client.results import PullStatus, RawPull
from cometmq.model.errors import BrokerRefused, ConnectionLost, NetError
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import Subscription
from tests.support.memory_cluster import MemoryQueue, record
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


END = 20


class Group:
    """A master with offsets 0-19 and replicas: what each has, and whom it suggests."""

    def __init__(self, suggests: int = 0, **replicas: range | Exception) -> None:
        self.held: dict[int, range | Exception] = {0: range(END)}
        self.held |= {int(name.removeprefix("r")): held for name, held in replicas.items()}
        self.suggests = suggests
        self.asked: list[tuple[int, int]] = []

    async def ask(self, offset: int, member: int) -> AsyncGenerator[RawPull, None]:
        """Answers of four messages, until the member has no more."""
        self.asked.append((member, offset))
        held = self.held[member]
        if isinstance(held, Exception):
            raise held
        while offset < END:
            limits = (held.start, held.stop, b"", self.suggests)
            if offset < held.start:
                yield RawPull(PullStatus.OFFSET_ILLEGAL, held.start, *limits)
                return
            if offset >= held.stop:
                yield RawPull(PullStatus.NO_NEW_MESSAGE, offset, *limits)
                return
            until = min(offset + 4, held.stop, END)
            found = b"".join(
                record(QUEUE, each, MemoryQueue()) for each in range(offset, until)
            )
            limits = (held.start, held.stop, found, self.suggests)
            yield RawPull(PullStatus.FOUND, until, *limits)
            offset = until

    async def read(self, read_from: ReadFrom, suggested: dict[MessageQueue, int]) -> list[int]:
        """The ends of the answers for [0, END)."""
        replicas = self.held.keys() - {0}
        members = BrokerGroupMembers(read_from, 0 in self.held, replicas, suggested)
        pulls = members.pulls(QUEUE, start=0, end=END, is_all=True, ask=self.ask)
        return [pull.next_offset async for pull in pulls]

    @property
    def members(self) -> list[int]:
        """Who was asked, in order."""
        return [member for member, _ in self.asked]


WHOLE = [4, 8, 12, 16, 20]


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        (range(END), [(1, 0)]),
        (range(10), [(1, 0), (0, 10)]),  # It lags.
        (range(8), [(1, 0), (0, 8)]),
        (range(5, END), [(1, 0), (0, 0)]),  # It began later.
        (range(0), [(1, 0), (0, 0)]),
        (NetError("gone"), [(1, 0), (0, 0)]),
        (BrokerRefused(2, "slaveReadEnable=false", "b"), [(1, 0), (0, 0)]),
    ],
)
async def test_a_replica_gives_what_it_has_and_the_master_the_rest(held, asked):
    group = Group(r1=held)
    ends = await group.read(ReadFrom.SLAVE, {})
    assert ends[-1] == END
    assert ends == sorted(set(ends))
    assert group.asked == asked


async def test_the_master_alone_is_asked_where_that_is_wanted_or_nobody_else_is_there():
    group = Group(r1=range(END))
    assert await group.read(ReadFrom.MASTER, {QUEUE: 1}) == WHOLE
    assert group.members == [0]
    alone = Group()
    assert await alone.read(ReadFrom.SLAVE, {QUEUE: 3}) == WHOLE
    assert await alone.read(ReadFrom.SUGGESTED, {QUEUE: 3}) == WHOLE
    assert alone.members == [0, 0]


async def test_whom_an_answer_suggests_is_asked_next():
    suggested: dict[MessageQueue, int] = {}
    group = Group(r1=range(END), suggests=1)
    assert await group.read(ReadFrom.SUGGESTED, suggested) == [4]
    assert suggested == {QUEUE: 1}
    assert await group.read(ReadFrom.SUGGESTED, suggested) == WHOLE
    assert group.members == [0, 1]
    group.suggests = 0  # Caught up: the first answer sends it back.
    assert await group.read(ReadFrom.SUGGESTED, suggested) == WHOLE
    assert group.asked[2:] == [(1, 0), (0, 4)]


async def test_a_replica_without_its_master_reads_on_but_is_not_believed_that_it_is_the_end():
    group = Group(r2=range(10))
    del group.held[0]
    with pytest.raises(NetError, match="the master of b is not registered"):
        await group.read(ReadFrom.SUGGESTED, {})
    assert group.asked == [(2, 0)]
    with pytest.raises(NetError, match="the master of b is not registered"):
        await group.read(ReadFrom.MASTER, {})


@pytest.mark.parametrize(
    ("status", "following"),
    [
        (PullStatus.FOUND, 8),
        (PullStatus.NO_MATCHED_MESSAGE, 8),
        (PullStatus.OFFSET_ILLEGAL, 9),  # It begins later than it said a moment ago.
    ],
)
def test_an_answer_says_where_to_read_on(status, following):
    assert RawPull(status, 8, 9, 20, b"").following(5) == following
    assert RawPull(status, 8, 9, 20, b"").following(10) == 10
    assert RawPull(PullStatus.NO_NEW_MESSAGE, 20, 9, 20, b"").following(20) == 20
