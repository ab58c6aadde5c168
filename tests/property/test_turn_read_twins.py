"""What connections brought in a turn: the compiled kernel and the plain one keep the same of it; the compiled one takes and answers it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq import kernel as fast
from cometmq.kernel import turn_reads
from tests.support.lane_tables import table_of
from tests.support.send_frames import FORMS, SENDS, frame_of
from tests.support.twin_turns import twin_timeout, twin_turns
from tests.unit.kernel.test_columns import HOST, LAYOUTS, LIMITS, PLAIN, STORE_HOST, SUFFIX

pytestmark = [pytest.mark.compiled, pytest.mark.timeout(twin_timeout())]
BORN_HOST = bytes(range(8))


def noting(kernel: Any, told: list[tuple[Any, ...]]) -> tuple[type[Any], type[Any]]:
    """A turn and a connection of a kernel that note what they were asked for."""

    class OneTurn(kernel.TurnReads):  # type: ignore[misc]
        """Answers ahead what has an odd size."""

        def begin_soon(self) -> None:
            self.is_due = True
            told.append(("due",))

        def answer_ahead(self, data: bytes, peer: Any) -> bool:
            told.append(("ahead", peer.number, data))
            return len(data) % 2 > 0

        def take_alone(self) -> None:
            told.append(("alone", len(self.fresh)))

        def work_off(self) -> None:
            told.append(("full", self.size))

    class OnePeer(kernel.PeerEnd):  # type: ignore[misc]
        """Has a number."""

        def __init__(self, turn: OneTurn, number: int) -> None:
            super().__init__(turn, BORN_HOST)
            self.number = number

        def read_more(self, data: bytes) -> None:
            told.append(("read", self.number, data))

        def write_otherwise(self, data: bytes) -> None:
            told.append(("write", self.number, bytes(data)))

    return OneTurn, OnePeer


class House:
    """A turn and connections of a kernel, and what these were told beside it."""

    def __init__(self, kernel: Any, size_max: int = 1 << 20) -> None:
        self.told: list[tuple[Any, ...]] = []
        turn, self.peer = noting(kernel, self.told)
        self.turn = turn(size_max)

    def states(self, peers: list[Any]) -> list[object]:
        """All that can be seen of them."""
        return [
            *self.told, self.turn.size, self.turn.is_due,
            [peer.number for peer in self.turn.fresh],
            *(
                (peer.unread, peer.has_read, peer.state, peer.sends_alone, peer.asks_alone)
                for peer in peers
            ),
        ]  # fmt: skip


class TakingHouse(House):
    """The compiled one, which takes and answers sends, too."""

    def __init__(self) -> None:
        super().__init__(fast)
        start = '{"code":0,"extFields":{"queueId":"0","msgId":"C0A8'
        self.straight = table_of(fast, {"Orders": {1: fast.QueueEnd(1)}}, start)
        self.batch: Any = fast.SendBatch(SUFFIX)
        self.ends: list[tuple[Any, int]] = []

    def take(self, count_max: int = 99, size_min: int = 0) -> None:
        fast.take_reads(
            self.turn, self.batch, self.ends, count_max, size_min, self.straight, LIMITS
        )

    def answer(self) -> None:
        fast.pack_columns(self.batch, 0, 5000, 1 << 40, LAYOUTS, 1700, STORE_HOST, [])
        fast.answer_reads(self.batch, self.ends, HOST)


@contextmanager
def sockets(count: int) -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    with ExitStack() as stack:
        pairs = [socket.socketpair() for _ in range(count)]
        for ours, theirs in pairs:
            stack.enter_context(ours)
            stack.enter_context(theirs)
            ours.setblocking(False)
            theirs.setblocking(False)
        yield pairs


def received(theirs: socket.socket) -> bytes:
    try:
        return theirs.recv(1 << 20)
    except BlockingIOError:
        return b""


# What is a read: sends, how much of its end is missing, whether its connection sends alone, asks alone and waits for nothing or for
# somebody to read its answers, and has a socket for itself.
READS = st.tuples(
    st.lists(st.tuples(SENDS, FORMS), min_size=1, max_size=2), st.sampled_from([0, 0, 0, 1, 60]),
    st.sampled_from([True, True, False]), st.sampled_from([(False, False)] * 3 + [(True, False), (True, True)]),
    st.sampled_from([True, False]),
)  # fmt: skip


def worked(kernel: Any, reads: list[Any], size_max: int, lone_reads: int) -> list[object]:
    house = House(kernel, size_max)
    with sockets(len(reads)) as pairs:
        peers = []
        for number, (sends, cut, is_alone, asks, has_socket) in enumerate(reads):
            peer = house.peer(house.turn, number)
            peers.append(peer)
            peer.sends_alone = is_alone
            peer.asks_alone, is_paused = asks
            peer.state = (
                turn_reads.PeerState.PAUSED if is_paused else turn_reads.PeerState.QUIET
            )
            if has_socket:
                peer.direct_fd = pairs[number][0].fileno()
            house.turn.lone_reads = lone_reads and number == 1
            data = b"".join(frame_of(sent, form) for sent, form in sends)
            peer.data_received(data[: len(data) - cut])
            if number == 2:
                peer.data_received(b"more")
            peer.write_at_once(data)
        return [*house.states(peers), *(received(theirs) for _, theirs in pairs)]


@given(
    st.lists(READS, min_size=1, max_size=6), st.sampled_from([1 << 20, 500]), st.integers(0, 1)
)
@settings(max_examples=twin_turns(300), deadline=None)
def test_both_keep_and_write_the_same(reads, size_max, lone_reads):
    made = [worked(kernel, reads, size_max, lone_reads) for kernel in (fast, turn_reads)]
    assert made[0] == made[1]


@given(st.lists(READS, min_size=1, max_size=6), st.integers(1, 7), st.sampled_from([0, 300]))
@settings(max_examples=twin_turns(300), deadline=None)
def test_taken_are_whole_sends_of_those_who_send_alone_up_to_the_limits(
    reads, count_max, size_min
):
    """In order, up to the first who brought anything else; who is not taken has all of it yet."""
    house = TakingHouse()
    sent = []
    for number, (sends, cut, is_alone, _, _) in enumerate(reads):
        peer = house.peer(house.turn, number)
        data = b"".join(frame_of(send, form) for send, form in sends)
        peer.unread = data[: len(data) - cut]
        peer.sends_alone, peer.state = is_alone, turn_reads.PeerState.QUEUED
        house.turn.fresh.append(peer)
        house.turn.size += len(peer.unread)
        sent.append(peer.unread)
    house.take(count_max, size_min)
    expected: Any = fast.SendBatch(SUFFIX)
    size, taken = sum(map(len, sent)), 0
    while taken < min(len(sent), count_max) and size >= size_min:
        data = sent[taken]
        is_one = len(data) >= 8 and 4 + int.from_bytes(data[:4]) == len(data)
        if not (reads[taken][2] and is_one):
            break
        if fast.take_sends(expected, data, 0, 1, BORN_HOST, house.straight, LIMITS) != len(
            data
        ):
            break
        size, taken = size - len(data), taken + 1
    assert [peer.number for peer, _ in house.ends] == [*range(taken)]
    assert [peer.unread for peer in house.turn.fresh] == sent[taken:]
    assert (house.turn.size, house.batch.count) == (size, expected.count)
    assert house.batch.puts() == expected.puts()


KERNELS = pytest.mark.parametrize("kernel", [fast, turn_reads], ids=["compiled", "plain"])
SEND = frame_of(PLAIN, "json")


def in_turn(house: House, count: int) -> list[Any]:
    """Connections that brought a send each."""
    peers = [house.peer(house.turn, number) for number in range(count)]
    for peer in peers:
        peer.sends_alone = True
        peer.data_received(SEND)
    return peers


def test_who_sends_alone_is_taken_and_answered_without_being_asked():
    house = TakingHouse()
    with sockets(3) as pairs:
        peers = in_turn(house, 3)
        for peer, (ours, _) in zip(peers, pairs, strict=True):
            peer.direct_fd = ours.fileno()
        assert house.turn.size == 3 * len(SEND)
        house.take()
        assert not house.turn.fresh
        assert house.turn.size == 0
        house.answer()
        answers = [received(theirs) for _, theirs in pairs]
    assert house.told == [("due",)]
    for number, answer in enumerate(answers):
        assert b'"queueOffset":"%d"' % number in answer


def test_the_rest_of_an_answer_goes_to_whoever_knows_what_comes_first():
    """A socket takes a part, nothing, or is closed: nothing is lost, and nothing comes twice."""
    house, filled = TakingHouse(), 0
    large = PLAIN._replace(fields=PLAIN.fields | {"i": "UNIQ_KEY\1" + "K" * 30_000 + "\2"})
    with sockets(3) as pairs:
        peers = in_turn(house, 3)
        house.turn.size += len(frame_of(large, "json")) - len(SEND)
        peers[0].unread = frame_of(large, "json")
        for peer, (ours, theirs) in zip(peers, pairs, strict=True):
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
            peer.direct_fd = ours.fileno()
            if peer.number == 1:
                try:
                    while True:
                        filled += ours.send(b"x" * 100)
                except BlockingIOError:
                    pass
            elif peer.number == 2:
                theirs.close()
        house.take()
        house.answer()
        first = received(pairs[0][1])
        assert received(pairs[1][1]) == b"x" * filled
    assert house.told[0] == ("due",)
    (_, number, rest), (_, *full), (_, *closed) = house.told[1:]
    whole = fast.answer_columns(house.batch, 0, 1, HOST)
    assert number == 0
    assert 0 < len(first) < len(first) + len(rest)
    assert b"K" * 30_000 in first + rest
    assert whole == first + rest
    assert [full[0], closed[0]] == [1, 2]
    for number, answer in (full, closed):
        assert b'"queueOffset":"%d"' % number in answer


@KERNELS
def test_more_bytes_than_may_wait_are_worked_on_as_they_come(kernel):
    house = House(kernel, len(SEND))
    in_turn(house, 2)
    assert house.told == [("due",), ("full", 2 * len(SEND))]


def test_what_is_no_send_alone_stays_where_it_is():
    """A pipelined read, half a frame, one whose state changed meanwhile: all of it waits, untouched."""
    for data in (
        SEND * 2,
        SEND[:-1],
        SEND + SEND[:9],
        b"\0\0\0\4",
        SEND.replace(b"Orders", b"Others"),
    ):
        house = TakingHouse()
        peer = house.peer(house.turn, 0)
        peer.sends_alone = True
        peer.data_received(data)
        house.take()
        assert (list(house.turn.fresh), peer.unread, house.ends) == ([peer], data, [])
    house = TakingHouse()
    peers = in_turn(house, 2)
    peers[0].sends_alone = False
    house.take()
    assert (list(house.turn.fresh), house.batch.count) == (peers, 0)
