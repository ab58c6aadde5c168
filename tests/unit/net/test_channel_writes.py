"""When a channel writes: a lone request at once, requests of one turn of the loop together."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from cometmq.codec.remoting import FRAME_SIZE_MAX, Command, encode_command
from cometmq.codec.send_text import back_text, front_text, json_text, middle_text
from cometmq.model.errors import CodecError, ConnectionLost, RequestTimeout
from cometmq.model.flags import RESPONSE
from cometmq.net.channel import Channel
from cometmq.net.waiters import Call
from cometmq.wire.connection import Connection
from tests.support.hand_clock import HandClock

PIECES = (
    front_text(310, "group", "topic", "TBW102", 4),
    2,
    middle_text(0, 1, 0, json_text("")),
    back_text("broker-a"),
)


class Written(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is no buffer."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.pieces.append(bytes(data))

    def commands(self) -> list[list[tuple[int, int]]]:
        """(code, opaque) of the requests in each write."""
        return [
            [(command[0], command[2]) for command in Connection[None]().receive_data(piece)]
            for piece in self.pieces
        ]


@pytest.fixture
async def written() -> Written:
    return Written()


@pytest.fixture
async def channel(written: Written) -> Channel:
    made = Channel("127.0.0.1:1", HandClock())
    made.connection_made(written)
    return made


def future() -> asyncio.Future[Command]:
    return asyncio.get_running_loop().create_future()


def waiter() -> Call:
    return Call(future())


def answer(opaque: int) -> bytes:
    return encode_command(Command(0, RESPONSE, opaque))


async def test_a_lone_request_is_written_when_it_is_made(channel, written):
    first = future()
    channel.send(PIECES, b"body", Call(first), 9e9)
    assert written.commands() == [[(310, 1)]]
    channel.data_received(answer(1))
    assert (await first).code == 0
    channel.start(Command(34), waiter(), deadline=9e9)
    assert written.commands() == [[(310, 1)], [(34, 2)]]


@pytest.fixture
async def connected() -> AsyncIterator[tuple[Channel, socket.socket]]:
    """A channel on a real socket, and the other end of it."""
    near, far = socket.socketpair()
    far.setblocking(False)
    transport, channel = await asyncio.get_running_loop().create_connection(
        lambda: Channel("127.0.0.1:1", HandClock()), sock=near
    )
    with far:
        yield channel, far
        transport.abort()


def received(far: socket.socket) -> list[int]:
    """The opaques of the requests that have come by now, in their order."""
    data = b""
    with contextlib.suppress(BlockingIOError):
        while piece := far.recv(1 << 20):
            data += piece
    wire = Connection[None]()
    found = [command[2] for command in wire.receive_data(data)]
    assert not wire.buffered
    return found


async def test_of_many_sends_in_one_turn_the_first_leave_while_the_others_are_made(connected):
    channel, far = connected
    for _ in range(300):
        channel.send(PIECES, b"body", waiter(), 9e9)
    at_once = received(far)
    assert len(at_once) >= 200
    await asyncio.sleep(0.01)
    assert at_once + received(far) == list(range(1, 301))


async def test_what_the_socket_does_not_take_goes_in_its_place(connected):
    channel, far = connected
    body = bytes(16 << 10)
    for _ in range(300):
        channel.send(PIECES, body, waiter(), 9e9)
    wire = Connection[None]()
    opaques: list[int] = []
    async with asyncio.timeout(10):
        while len(opaques) < 300:
            data = await asyncio.get_running_loop().sock_recv(far, 1 << 20)
            opaques += [command[2] for command in wire.receive_data(data)]
    assert opaques == list(range(1, 301))


async def test_nothing_is_written_past_the_end_of_a_channel(connected):
    channel, far = connected
    channel.close()
    for _ in range(128):
        channel.send(PIECES, b"body", waiter(), 9e9)
    await channel.wait_closed()
    assert not received(far)


async def test_requests_of_one_turn_beside_another_leave_with_one_write(channel, written):
    for _ in range(3):
        channel.send(PIECES, b"body", waiter(), 9e9)
    channel.start(Command(34), waiter(), deadline=9e9)
    channel.oneway(Command(35))
    channel.send_oneway(PIECES, b"body")
    await asyncio.sleep(0)
    assert written.commands() == [
        [(310, 1)],
        [(310, 2), (310, 3), (34, 4), (35, 5), (310, 6)],
    ]


async def test_a_request_behind_a_oneway_of_the_same_turn_times_out_too(channel, written):
    channel.oneway(Command(35))
    late = future()
    channel.send(PIECES, b"body", Call(late), -1.0)
    async with asyncio.timeout(30):
        with pytest.raises(RequestTimeout):
            await late
    assert written.commands() == [[(35, 1), (310, 2)]]


async def many_waiting(channel: Channel, count: int) -> list[asyncio.Future[Command]]:
    """Requests that are written, and the futures of their answers."""
    waiting = [future() for _ in range(count)]
    for each in waiting:
        channel.send(PIECES, b"body", Call(each), 9e9)
    await asyncio.sleep(0)
    return waiting


def told(waiting: list[asyncio.Future[Command]]) -> int:
    """How many have their answer; they are the first ones."""
    count = sum(each.done() for each in waiting)
    assert all(each.done() for each in waiting[:count])
    return count


async def test_many_answers_of_one_read_are_given_over_several_turns_in_order(channel):
    waiting = await many_waiting(channel, 100)
    channel.data_received(b"".join(answer(opaque) for opaque in range(1, 91)))
    counts = [told(waiting)]
    channel.data_received(b"".join(answer(opaque) for opaque in range(91, 101)))
    while counts[-1] < 100:
        await asyncio.sleep(0)
        counts.append(told(waiting))
    assert counts == [32, 64, 96, 100]
    assert [each.result().opaque for each in waiting] == list(range(1, 101))


async def test_answers_that_have_arrived_are_given_when_the_connection_is_lost(channel):
    waiting = await many_waiting(channel, 100)
    channel.data_received(b"".join(answer(opaque) for opaque in range(1, 100)))
    channel.connection_lost(None)
    assert [each.result().opaque for each in waiting[:99]] == list(range(1, 100))
    with pytest.raises(ConnectionLost):
        await waiting[99]


async def test_a_frame_that_no_peer_takes_is_refused_and_nobody_waits_for_it(channel, written):
    body = bytes(FRAME_SIZE_MAX)
    with pytest.raises(CodecError, match="peers close"):
        channel.send(PIECES, body, waiter(), 9e9)
    with pytest.raises(CodecError, match="peers close"):
        channel.send_oneway(PIECES, body)
    await asyncio.sleep(0)
    assert written.pieces == []
    channel.send(PIECES, memoryview(b"body"), waiter(), 9e9)
    assert written.commands() == [[(310, 3)]]
