"""A turn of the loop is a batch: what connections brought in it is handled together, in bounds, and each in its order."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from cometmq.codec.remoting import Command, encode_command
from cometmq.model.flags import RESPONSE
from cometmq.net.answer import Answer
from cometmq.net.dispatcher import Dispatcher
from cometmq.net.peer import Peer
from cometmq.net.server import Server
from cometmq.net.socket_writer import SocketWriter
from cometmq.net.turn import BUDGET_SECONDS, COUNT_MAX, LONE_READS, LONE_TURNS
from tests.support.hand_clock import HandClock
from tests.support.hand_connection import Wire, connected_to
from tests.support.tables import table_of

STORE, ASK, FAIL = 9100, 9001, 9002
REQUEST_SECONDS = 100e-6


class Stores:
    """Takes 100 us of the clock for each request, and keeps what came together."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self.batches: list[list[int]] = []
        self.written_count = 0
        self.fails_behind = False
        self.on_last: Callable[[], None] = lambda: None

    def handle(self, reads: Any) -> None:
        self.batches.append([len(commands) for _, commands in reads])
        for peer, commands in reads:
            for command in commands:
                self.clock.turn(REQUEST_SECONDS)
                peer.answer(command, Answer(0))
        self.on_last()

    def written(self) -> None:
        self.written_count += 1
        if self.fails_behind:
            raise ZeroDivisionError("a listener's fault")


class Hall:
    """A server without sockets, and connections to it."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.stores = Stores(self.clock)
        self.on_ask: Callable[[], None] = lambda: None
        table: dict[int, Any] = {STORE: self.stores, ASK: self.ask, FAIL: self.fail}
        self.counted: list[float] = []  # The seconds of each answered request.
        times: Any = defaultdict(lambda: lambda us: self.counted.append(us / 1e6))
        dispatcher = Dispatcher(table_of(table), answer_times=times)
        self.server = Server(dispatcher, self.clock)

    def ask(self, _command: Command, _peer: Peer) -> Answer:
        self.clock.turn(REQUEST_SECONDS)
        self.on_ask()
        return Answer(0)

    def fail(self, _command: Command, _peer: Peer) -> Answer:
        raise ZeroDivisionError("its fault")

    def connect(self) -> tuple[Peer, Wire]:
        return connected_to(self.server)


@pytest.fixture
async def hall() -> Hall:
    return Hall()


def frames(count: int, *, code: int = STORE, first: int = 0) -> bytes:
    return b"".join(
        encode_command(Command(code, opaque=opaque)) for opaque in range(first, first + count)
    )


async def turn() -> None:
    await asyncio.sleep(0)


async def test_what_all_connections_brought_in_a_turn_is_one_batch(hall):
    connected = [hall.connect() for _ in range(20)]
    for number, (peer, _) in enumerate(connected):
        peer.data_received(frames(1 + number % 3))
    assert hall.stores.batches == []
    await turn()
    assert hall.stores.batches == [[1 + number % 3 for number in range(20)]]
    assert hall.stores.written_count == 1
    for number, (_, wire) in enumerate(connected):
        assert wire.answers() == [(0, opaque) for opaque in range(1 + number % 3)]


async def test_one_that_comes_alone_turn_after_turn_does_not_wait_for_others(hall):
    peer, wire = hall.connect()
    for _ in range(LONE_TURNS + 1):
        peer.data_received(frames(1))
        assert wire.answers() == []
        await turn()
        assert wire.answers() == [(0, 0)]
    for _ in range(LONE_READS):
        peer.data_received(frames(1))
        assert wire.answers() == [(0, 0)]
    others = [hall.connect() for _ in range(3)]
    for one, _ in (others[0], others[1], others[2], (peer, wire)):
        one.data_received(frames(1))
    await turn()
    assert hall.stores.batches[-1] == [1, 1, 1, 1]


@pytest.mark.parametrize(("code", "count"), [(STORE, 100_000), (ASK, 20_000)])
async def test_one_that_brings_very_much_keeps_nobody_waiting(hall, code, count):
    """Of very many requests a turn does what its budget allows; who comes then is served before the rest."""
    greedy, its_wire = hall.connect()
    modest, wire = hall.connect()
    data, got, longest = frames(count, code=code), 0, 0.0
    done: list[tuple[int, int]] = []
    for start in range(0, len(data), 256 << 10):
        while not its_wire.is_read:
            before = hall.clock.monotonic()
            modest.data_received(frames(1))
            await turn()
            got += len(wire.answers())
            longest = max(longest, hall.clock.monotonic() - before)
            done += its_wire.answers()
        greedy.data_received(data[start : start + (256 << 10)])
    while len(done) < count:
        await turn()
        done += its_wire.answers()
    assert done == [(0, opaque) for opaque in range(count)]
    assert got > 100
    assert longest <= 0.020
    assert max(map(sum, hall.stores.batches)) <= COUNT_MAX + 1


async def test_who_brings_more_in_the_same_turn_is_not_read_until_it_is_done(hall):
    peer, wire = hall.connect()
    peer.data_received(frames(1))
    assert wire.is_read
    peer.data_received(frames(1, first=1))
    assert not wire.is_read
    await turn()
    assert wire.is_read
    assert wire.answers() == [(0, 0), (0, 1)]


async def test_who_reads_its_last_answers_slowly_is_read_again_when_it_has_them(hall):
    peer, wire = hall.connect()
    peer.data_received(frames(1))
    peer.data_received(frames(1, first=1))
    assert not wire.is_read
    hall.stores.on_last = peer.pause_writing
    await turn()
    assert [opaque for _, opaque in wire.answers()] == [0, 1]
    assert not wire.is_read
    peer.resume_writing()
    assert wire.is_read
    peer.data_received(frames(1, first=2))
    await turn()
    assert wire.answers() == [(0, 2)]


async def test_a_timer_has_its_share_while_connections_bring_more_than_turns_hold(hall):
    connected = [hall.connect() for _ in range(8)]
    for peer, _ in connected:
        peer.data_received(frames(500))
    done = 0
    turns = 0
    while done < 8 * 500:
        before = hall.clock.monotonic()
        await turn()  # This test is the timer.
        turns += 1
        done += sum(len(wire.answers()) for _, wire in connected)
        assert hall.clock.monotonic() - before < 2 * BUDGET_SECONDS
    assert turns > 8 * 500 * REQUEST_SECONDS / BUDGET_SECONDS / 2


async def test_a_turn_ends_where_connections_are_closed_for_the_answers_they_hold(hall):
    """What they held is free when the loop goes round: nobody makes more answers before that."""
    connected = [hall.connect() for _ in range(8)]
    asked = 0

    def close_somebody() -> None:
        nonlocal asked
        asked += 1
        if asked % 5 == 0:
            hall.server.unread_answers.on_closed()

    hall.on_ask = close_somebody
    for peer, _ in connected:
        peer.data_received(frames(10, code=ASK))
    done: dict[int, list[int]] = {number: [] for number in range(8)}
    while asked < 80:
        before = asked
        await turn()
        assert asked <= before + 5
        for number, (_, wire) in enumerate(connected):
            done[number] += [opaque for _, opaque in wire.answers()]
    assert done == {number: list(range(10)) for number in range(8)}


async def test_a_handler_that_fails_loses_its_own_request(hall):
    first, first_wire = hall.connect()
    second, second_wire = hall.connect()
    hall.stores.fails_behind = True
    first.data_received(frames(1) + frames(1, code=FAIL, first=1) + frames(1, first=2))
    second.data_received(frames(1, first=7))
    await turn()
    assert sorted(first_wire.answers(), key=lambda answer: answer[1]) == [
        (0, 0),
        (1, 1),
        (0, 2),
    ]
    assert second_wire.answers() == [(0, 7)]
    first.data_received(frames(1, first=9))
    await turn()
    assert first_wire.answers() == [(0, 9)]


async def test_what_an_answer_lets_go_on_is_no_time_of_the_request_behind_it(hall):
    peer, wire = hall.connect()
    asked = next(peer.call(STORE, {}))
    asked.begin(lambda _answer, _error: hall.clock.turn(1.0))
    await turn()
    [(_, opaque)] = wire.answers()  # It is our question.
    answer = encode_command(Command(0, RESPONSE, opaque=opaque))
    peer.data_received(answer + frames(2, code=ASK))
    await turn()
    assert hall.clock.monotonic() > 1.0
    assert hall.counted == pytest.approx([REQUEST_SECONDS, REQUEST_SECONDS], abs=2e-6)


async def test_a_bad_frame_ends_its_connection_and_nothing_else_of_the_turn(hall):
    bad, _ = hall.connect()
    good, wire = hall.connect()
    bad.data_received(b"\xff" * 64)
    good.data_received(frames(1))
    await turn()
    assert wire.answers() == [(0, 0)]
    assert hall.server.bad_frames == 1


async def test_one_that_is_gone_before_its_turn_leaves_nothing_to_do(hall):
    gone, _ = hall.connect()
    here, wire = hall.connect()
    gone.data_received(frames(3))
    gone.data_received(frames(3))
    gone.connection_lost(None)
    here.data_received(frames(1))
    await turn()
    assert hall.stores.batches == [[1]]
    assert wire.answers() == [(0, 0)]


async def test_bytes_that_wait_are_bounded(hall):
    """Beyond 16 MiB they are worked on as they come, not at the end of the turn."""
    connected = [hall.connect() for _ in range(80)]
    data = frames(2, code=ASK) + encode_command(Command(ASK, opaque=2, body=bytes(255 << 10)))
    for peer, _ in connected:
        peer.data_received(data)
    answered = sum(len(wire.answers()) for _, wire in connected)
    assert answered >= 3 * 10
    while answered < 3 * 80:
        await turn()
        answered += sum(len(wire.answers()) for _, wire in connected)


class Plain(Wire):
    """A transport over a socket that others may write to."""

    def __init__(self, near: socket.socket) -> None:
        super().__init__()
        self._near = near

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._near if name == "socket" else default


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a connection, neither of which blocks."""
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        far.setblocking(False)
        yield near, far


def test_pieces_are_written_as_one_and_what_the_socket_does_not_take_follows(pair):
    near, far = pair
    transport = Plain(near)
    writer = SocketWriter(transport)
    assert writer.write_pieces_now([b"head", memoryview(b"body"), b""], 8)
    assert (transport.written, far.recv(100)) == (b"", b"headbody")
    pieces: list[bytes | memoryview] = [
        b"h" * 10,
        memoryview(bytes(range(256)) * (1 << 16)),
    ]
    size = 10 + (16 << 20)
    assert not writer.write_pieces_now(pieces, size)  # 16 MiB: more than a socket takes.
    sent = b""
    with suppress(BlockingIOError):
        while True:
            sent += far.recv(1 << 20)
    assert sent
    assert sent + transport.written == b"".join(pieces)
    writer.lost()
    transport.written = b""
    assert not writer.write_pieces_now([b"la", b"te"], 4)
    assert transport.written == b"late"


def test_more_pieces_than_the_system_takes_at_once_are_written_in_their_order(pair):
    """No turn of today has so many (256 pulls of two pieces each): whoever raises that loses nothing."""
    near, far = pair
    transport = Plain(near)
    writer = SocketWriter(transport)
    pieces: list[bytes | memoryview] = [
        memoryview(b"%05d" % number) for number in range(3 * os.sysconf("SC_IOV_MAX"))
    ]
    writer.write_pieces_now(pieces, 5 * len(pieces))
    sent = b""
    with suppress(BlockingIOError):
        sent = far.recv(1 << 20)
    assert sent + transport.written == b"".join(pieces)


def test_only_plain_sockets_are_written_past_their_transport(pair):
    class Secret(Wire):
        def __init__(self, near: socket.socket, ssl: object) -> None:
            super().__init__()
            self._extra = {"socket": near, "sslcontext": ssl}

        def get_extra_info(self, name: str, default: Any = None) -> Any:
            return self._extra.get(name, default)

    near, far = pair
    plain, secret = Secret(near, None), Secret(near, object())
    assert SocketWriter(plain).write_now(b"plain")
    assert (plain.written, far.recv(100)) == (b"", b"plain")
    assert not SocketWriter(secret).write_now(b"secret")
    assert secret.written == b"secret"
    with pytest.raises(BlockingIOError):
        far.recv(100)
    closing = SocketWriter(plain)
    closing.lost()
    assert not closing.write_now(b"late")
    assert plain.written == b"late"


def test_what_the_transport_has_goes_first_and_behind_it_the_socket_is_written_again(pair):
    class Slow(Plain):
        def get_write_buffer_size(self) -> int:
            return len(self.written)

    near, far = pair
    transport = Slow(near)
    writer = SocketWriter(transport)
    writer.write(b"first ")
    assert not writer.write_now(b"second ")
    assert not writer.write_pieces_now([b"third"], 5)
    assert not writer.is_direct
    assert transport.written == b"first second third"
    transport.written = b""  # It has written them.
    assert writer.write_now(b"fourth")
    assert (transport.written, far.recv(100)) == (b"", b"fourth")
