"""An intake takes requests from the bytes of connections, in front of what becomes commands, in shares, and only ungated."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from cometmq.codec.remoting import Command, encode_command
from cometmq.kernel import TurnReads
from cometmq.kernel.turn_reads import DIRECT_SIZE_MAX, PeerState
from cometmq.model.rights import Right
from cometmq.net.answer import Answer
from cometmq.net.peer import DECODED_SIZE, Peer
from cometmq.net.requests import OwnMachineGate, RequestRule, RequestTable
from cometmq.net.server import Server
from cometmq.net.turn import AHEAD_COST, AHEAD_SIZE_MAX, COUNT_MAX, LONE_TURNS
from tests.support.hand_clock import HandClock
from tests.support.hand_connection import Wire, connected_to
from tests.support.tables import answering

TAKEN, ASK = 310, 9001


def frame(opaque: int, *, body: bytes = b"", code: int = TAKEN) -> bytes:
    return encode_command(Command(code, opaque=opaque, body=body))


class Taking:
    """Takes frames of its code without a body, and notes in which order all is handled."""

    judged = frozenset({TAKEN})

    def __init__(self) -> None:
        self.count = 0
        self.passed_over: list[bytes] = []
        self.codes = frozenset({TAKEN})
        self.intake = self
        self.order: list[tuple[str, int]] = []
        self.alone: list[int] = []
        self._taken: list[tuple[Peer, int]] = []

    def take(
        self, data: bytes, position: int, peer: Peer, count_max: int, _signer: Any = None
    ) -> int:
        mark, before, began = b'"code":310', self.count, position
        while self.count - before < count_max and len(data) - position >= 8:
            end = position + 4 + int.from_bytes(data[position : position + 4])
            piece = data[position:end]
            if end > len(data) or mark not in piece or not piece.endswith(b"}"):
                break
            opaque = int(piece.partition(b'"opaque":')[2].partition(b",")[0])
            self._taken.append((peer, opaque))
            self.count += 1
            position = end
        if position > began:
            peer.sends_alone = True
        return position

    def take_reads(self, turn: TurnReads[Peer], count_max: int, _size_min: int) -> None:
        """Take those of who brought one each, as the kernel does."""
        last = self.count + count_max
        while turn.fresh and turn.fresh[0].sends_alone and self.count < last:
            peer = turn.fresh[0]
            data = peer.unread
            if self.take(data, 0, peer, 1) < len(data):
                self._taken, self.count = self._taken[:-1], self.count - 1
                peer.sends_alone = False
                return
            turn.fresh.popleft()
            self.alone.append(self._taken[-1][1])
            peer.unread, peer.state = b"", PeerState.QUIET
            turn.size -= len(data)

    def answer_ahead(self, data: bytes, _write: Any) -> int:
        if b'"code":310' not in data:
            return 0
        self.order.append(("ahead", int(data.partition(b'"opaque":')[2].partition(b",")[0])))
        return len(data)

    def show(self, taker: object) -> None:
        """It shows nothing to others."""

    def handle(self, reads: Any = None) -> bool:
        if reads is None:
            taken, self._taken, self.count = self._taken, [], 0
            for peer, opaque in taken:
                self.order.append(("taken", opaque))
                peer.write_at_once(frame(opaque))
            return False
        for peer, commands in reads:
            for command in commands:
                self.order.append(("batch", command[2]))
                peer.answer(command, Answer(0))
        return True

    def written(self) -> None:
        """Nobody is told."""


class Hall:
    """A server with such an intake, and connections to it."""

    def __init__(self) -> None:
        self.taking = Taking()
        table: dict[int, Any] = {TAKEN: self.taking, ASK: self.ask}
        self.server = Server(answering(table), HandClock())

    def ask(self, command: Command, _peer: Peer) -> Answer:
        self.taking.order.append(("single", command.opaque))
        return Answer(0)

    def connect(self) -> tuple[Peer, Wire]:
        return connected_to(self.server)

    def opaques(self, what: str) -> list[int]:
        return [opaque for kind, opaque in self.taking.order if kind == what]


@pytest.fixture
async def hall() -> Hall:
    return Hall()


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_is_taken_comes_first_and_the_rest_keeps_its_order(hall):
    peer, _ = hall.connect()
    other, _ = hall.connect()
    peer.data_received(
        frame(1) + frame(2) + frame(3, code=ASK) + frame(4, body=b"x") + frame(5)
    )
    other.data_received(frame(6))
    await turns(1)
    assert hall.taking.order == [
        ("taken", 1), ("taken", 2), ("taken", 6), ("single", 3), ("batch", 4), ("batch", 5),
    ]  # fmt: skip


async def test_a_frame_that_comes_in_pieces_is_taken_when_it_is_whole(hall):
    peer, _ = hall.connect()
    data = frame(1) + frame(2)
    for byte in range(len(data)):
        peer.data_received(data[byte : byte + 1])
        await turns(2)
    assert hall.taking.order == [("taken", 1), ("taken", 2)]


async def test_more_than_a_share_is_taken_in_turns_and_in_order(hall):
    peer, _ = hall.connect()
    count = 3 * COUNT_MAX
    peer.data_received(b"".join(map(frame, range(count))) + frame(count, code=ASK))
    await turns(1)
    peer.data_received(frame(count + 1))
    await turns(60)
    assert hall.opaques("taken") == [*range(count), count + 1]
    assert hall.opaques("single") == [count]
    assert peer.is_read
    assert hall.server.turn.size == 0


async def test_of_many_bytes_that_are_not_taken_a_part_is_decoded_at_a_time(hall):
    """Decoded requests take ten times the memory."""
    peer, _ = hall.connect()
    asks = [
        frame(number, code=ASK, body=bytes(200_000 if number == 700 else 200))
        for number in range(1, 1500)
    ]
    peer.data_received(frame(0) + b"".join(asks))
    await turns(1)
    assert len(peer._backlog) * len(asks[0]) <= 2 * DECODED_SIZE
    await turns(200)
    assert hall.opaques("taken") == [0]
    assert hall.opaques("single") == [*range(1, 1500)]
    assert hall.server.turn.size == 0


async def test_one_that_comes_alone_is_taken_as_it_comes(hall):
    peer, wire = hall.connect()
    for number in range(LONE_TURNS + 1):
        peer.data_received(frame(number))
        await turns(1)
    wire.answers()
    peer.data_received(frame(99))
    assert hall.opaques("taken")[-1] == 99
    peer.data_received(frame(100) + frame(101, code=ASK) + frame(102))
    assert hall.taking.order[-3:] == [("taken", 100), ("single", 101), ("batch", 102)]


async def test_bytes_that_wait_are_forgotten_with_their_connection(hall):
    peer, _ = hall.connect()
    peer.data_received(b"".join(map(frame, range(2 * COUNT_MAX))))
    await turns(1)
    peer.connection_lost(None)
    await turns(5)
    assert hall.server.turn.size == 0


def test_a_gate_that_asks_about_a_code_leaves_no_intake():
    """What is taken is no command, so nobody could be asked."""
    taking = Taking()

    class Gate(OwnMachineGate):
        """Asks about one of two codes."""

        def is_asked(self, rule: RequestRule) -> bool:
            return rule.code == TAKEN + 1

    rules = [RequestRule(code, Right.ANYBODY, (), is_batch=True) for code in (TAKEN, TAKEN + 1)]
    answers: dict[int, Any] = {TAKEN: taking, TAKEN + 1: taking}
    words = "refused"
    assert RequestTable(rules, [answers], Gate(lambda *_: words)).intake is None
    assert RequestTable(rules, [answers], OwnMachineGate(lambda *_: words)).intake is taking


def test_a_gate_that_asks_about_what_an_intake_takes_beside_leaves_none():
    """Its own codes are asked about, too, where another handler answers them."""
    taking = Taking()
    taking.codes = frozenset({TAKEN, ASK})
    rules = [
        RequestRule(TAKEN, Right.ANYBODY, (), is_batch=True),
        RequestRule(ASK, Right.ADMINISTRATOR, ()),
    ]
    answers: dict[int, Any] = {TAKEN: taking, ASK: lambda _command, _peer: Answer(0)}
    gate = OwnMachineGate(lambda *_: "refused")
    assert RequestTable(rules, [answers], gate).intake is None


async def test_who_asks_alone_is_answered_ahead_of_the_turn_where_nothing_of_his_waits(hall):
    peer, _ = hall.connect()
    peer.data_received(frame(1))
    peer.asks_alone = True
    peer.data_received(frame(2))  # Behind one that waits for its turn.
    assert not peer.asks_alone
    await turns(3)
    peer.asks_alone = True
    peer.data_received(frame(3))
    assert hall.opaques("ahead") == [3]
    part = frame(5, code=ASK)
    peer.data_received(part[:9])  # Not for an intake: the next ones are not, either.
    assert not peer.asks_alone
    peer.data_received(part[9:] + frame(6))
    await turns(3)
    assert hall.taking.order == [
        ("taken", 1), ("taken", 2), ("ahead", 3), ("single", 5), ("batch", 6),
    ]  # fmt: skip


async def test_answers_ahead_of_turns_are_bounded_until_there_is_one(hall):
    peers = [hall.connect()[0] for _ in range(500)]
    for number, peer in enumerate(peers):
        peer.asks_alone = True
        peer.data_received(frame(number))
    ahead = hall.opaques("ahead")
    assert ahead == [*range(len(ahead))]
    assert AHEAD_SIZE_MAX // AHEAD_COST - 2 <= len(ahead) <= AHEAD_SIZE_MAX // AHEAD_COST
    await turns(20)
    assert sorted(hall.opaques("taken")) == [*range(len(ahead), len(peers))]
    peers[0].data_received(frame(1))
    assert len(hall.opaques("ahead")) == len(ahead) + 1


async def alone(hall: Hall) -> tuple[Peer, Wire]:
    """A connection that has sent one, beside another, so that no read is handled as it comes."""
    peer, wire = hall.connect()
    peer.data_received(frame(1))
    await turns(2)
    assert peer.sends_alone
    return peer, wire


async def test_who_sends_alone_is_taken_with_all_others_who_do(hall):
    some = [await alone(hall) for _ in range(3)]
    for number, (peer, wire) in enumerate(some):
        wire.answers()
        peer.data_received(frame(10 + number))
    hall.connect()[0].data_received(frame(20))
    await turns(1)
    assert hall.taking.alone == [10, 11, 12]
    assert hall.opaques("taken")[3:] == [10, 11, 12, 20]
    assert [wire.answers() for _, wire in some] == [[(310, 10)], [(310, 11)], [(310, 12)]]
    assert hall.server.turn.size == 0


async def test_more_of_it_in_the_same_turn_comes_behind_in_order(hall):
    peer, wire = await alone(hall)
    peer.data_received(frame(2))
    peer.data_received(frame(3, code=ASK) + frame(4)[:5])
    held = not wire.is_read
    await turns(3)
    assert (held, wire.is_read) == (True, True)
    peer.data_received(frame(4)[5:])
    peer.data_received(frame(5))
    await turns(3)
    assert hall.taking.order == [
        ("taken", 1), ("taken", 2), ("single", 3), ("taken", 4), ("taken", 5),
    ]  # fmt: skip
    assert hall.taking.alone == []
    assert hall.server.turn.size == 0


async def test_who_reads_no_answers_waits_though_it_sent_alone(hall):
    peer, wire = await alone(hall)
    peer.data_received(frame(2))
    peer.pause_writing()
    await turns(3)
    assert hall.opaques("taken") == [1]
    held = not wire.is_read
    peer.resume_writing()
    await turns(3)
    assert hall.opaques("taken") == [1, 2]
    assert (held, wire.is_read) == (True, True)
    assert hall.server.turn.size == 0


async def test_who_is_gone_before_its_turn_is_not_taken(hall):
    peer, _ = await alone(hall)
    other, _ = await alone(hall)
    peer.data_received(frame(2))
    other.data_received(frame(3))
    peer.connection_lost(None)
    await turns(3)
    assert hall.opaques("taken") == [1, 1, 3]
    assert hall.server.turn.size == 0


async def test_of_very_many_who_send_alone_a_turn_takes_no_more_than_of_others(hall):
    some = [hall.connect()[0] for _ in range(COUNT_MAX + 9)]
    for number, peer in enumerate(some):
        peer.data_received(frame(number))
    await turns(3)
    handled: list[int] = []
    handle = hall.taking.handle

    def counted(reads: Any = None) -> bool:
        handled.append(hall.taking.count)
        return handle(reads)

    hall.taking.handle = counted
    for number, peer in enumerate(some):
        peer.data_received(frame(number))
    await turns(20)
    assert hall.taking.alone == [*range(len(some))]
    assert max(handled) <= COUNT_MAX
    assert sum(handled) == len(some)


async def test_what_is_gathered_leaves_in_front_of_what_is_written_at_once(hall):
    """A socket is given bytes past its connection's other answers only where there are none."""
    peer, _ = hall.connect()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        peer._writer.fd = ours.fileno()
        peer.write_at_once(b"a")
        assert peer.direct_fd == ours.fileno()
        peer.gather()
        peer.write(b"b")
        assert peer.direct_fd == -1
        peer.write_at_once(b"c")
        assert peer.direct_fd == ours.fileno()
        assert theirs.recv(9) == b"abc"
        large = b"e" * (DIRECT_SIZE_MAX + 1)
        for piece in (large, memoryview(large)[1:]):  # Not by the kernel.
            peer.write_at_once(piece)
            assert theirs.recv(len(piece), socket.MSG_WAITALL) == piece
        peer.write(b"d")  # The transport has it.
        assert peer.direct_fd == -1
        for end in (peer.close, peer.abort, lambda: peer.connection_lost(None)):
            peer.direct_fd = ours.fileno()
            end()
            assert peer.direct_fd == -1
