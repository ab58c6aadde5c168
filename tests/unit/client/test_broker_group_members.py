"""Who gives the messages of a range: a replica what it has, the master what it lacks."""

from collections.abc import AsyncGenerator

import pytest

from cometmq.client.consumer.pull.range_reader import BrokerGroupMembers
from cometmq.connect import PullStatus, RawPull, ReadFrom
from cometmq.model.errors import BrokerRefused, NetError
from cometmq.model.queue import MessageQueue
from tests.support.memory_cluster import MemoryQueue, record

QUEUE = MessageQueue("T", "b", 0)
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
