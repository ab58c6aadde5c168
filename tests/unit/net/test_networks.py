"""Both networks, the machine's and the one in memory, do the same to a program: one suite for both."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest

from cometmq.client.identity import own_ip
from cometmq.net.loop import loop_network
from cometmq.net.network import Accepted

HOST = "127.0.0.1"


class End(asyncio.Protocol):
    """One end of a connection, which writes down what is done to it."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.said: list[str] = []
        self.changed = asyncio.Event()

    def connection_made(self, transport):
        self.transport = transport
        self.note("made")

    def data_received(self, data):
        self.received += data
        self.changed.set()

    def eof_received(self):
        self.note("eof")

    def connection_lost(self, exc):
        self.note("lost")

    def pause_writing(self):
        self.note("pause")

    def resume_writing(self):
        self.note("resume")

    def note(self, what):
        self.said.append(what)
        self.changed.set()

    async def until(self, look):
        while not look(self):
            self.changed.clear()
            await self.changed.wait()


@asynccontextmanager
async def pair(host=HOST):
    """Both ends of a connection to a bound address; the near one ends it, which the other hears of."""
    bound, ends = loop_network().bind(host, 0), []
    has_come = asyncio.Event()

    def accepted(connection):
        ends.append((connection, End()))
        has_come.set()

    bound.listen(accepted)
    near = End()
    await asyncio.get_running_loop().create_connection(lambda: near, HOST, bound.port)
    await has_come.wait()
    [(connection, far)] = ends
    await connection.attach(far)
    assert near.transport.get_extra_info("peername") == (HOST, bound.port)
    yield near, far, connection
    near.transport.close()
    await far.until(lambda end: "lost" in end.said)
    bound.close()


async def test_bytes_come_in_order_in_both_directions_and_the_end_behind_them():
    async with pair() as (near, far, _):
        pieces = [bytes([number]) * number * 1000 for number in range(100)]
        for piece in pieces:
            near.transport.write(piece)
        near.transport.writelines([b"last ", b"words"])
        far.transport.write(b"and back")
        await near.until(lambda end: len(end.received) == 8)
    assert bytes(far.received) == b"".join(pieces) + b"last words"
    assert far.said == ["made", "eof", "lost"]
    await near.until(lambda end: "lost" in end.said)
    assert near.transport.is_closing()


class Receiver(End, asyncio.BufferedProtocol):
    """An end that says where bytes are to be received, and how many: one more each time."""

    def __init__(self) -> None:
        super().__init__()
        self.room = bytearray(7)
        self.sizes: list[int] = []

    def get_buffer(self, _size):
        self.sizes.append(len(self.sizes) % len(self.room) + 1)
        return memoryview(self.room)[: self.sizes[-1]]

    def buffer_updated(self, count):
        assert count <= self.sizes[-1]
        self.data_received(self.room[:count])


async def test_bytes_are_received_where_a_protocol_wants_them_no_more_than_it_has_room_for():
    bound, far = loop_network().bind(HOST, 0), Receiver()
    come = asyncio.Queue[Accepted]()
    bound.listen(come.put_nowait)
    near = End()
    await asyncio.get_running_loop().create_connection(lambda: near, HOST, bound.port)
    await (await come.get()).attach(far)
    content = bytes(range(256)) * 8
    near.transport.writelines([content[:999], content[999:]])
    await far.until(lambda end: len(end.received) > 500)
    far.transport.pause_reading()
    has = len(far.received)
    await asyncio.sleep(0.1)
    assert len(far.received) == has < len(content)
    far.transport.resume_reading()
    near.transport.close()
    await far.until(lambda end: "lost" in end.said)
    assert far.received == content
    assert far.said == ["made", "eof", "lost"]
    bound.close()


async def test_both_know_each_others_addresses():
    async with pair() as (near, far, connection):
        assert connection.remote == near.transport.get_extra_info("sockname")
        assert connection.local_ip == HOST
        assert far.transport.get_extra_info("peername") == connection.remote
        near.transport.abort()


async def test_what_is_written_before_the_other_end_is_attached_is_read_then():
    network, come = loop_network(), asyncio.Queue[Accepted]()
    bound = network.bind(HOST, 0)
    bound.listen(come.put_nowait)
    near, far = End(), End()
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: near, HOST, bound.port)
    near.transport.write(b"early")
    connection = await come.get()
    await connection.attach(far)
    await far.until(lambda end: end.received)
    assert bytes(far.received) == b"early"
    near.transport.close()
    await far.until(lambda end: "lost" in end.said)
    bound.close()


async def test_who_is_not_read_is_paused_and_goes_on_when_it_is():
    async with pair() as (near, far, _):
        near.transport.set_write_buffer_limits(high=100_000)
        far.transport.pause_reading()
        written = 0
        while "pause" not in near.said:
            assert written < 64 << 20
            near.transport.write(bytes(65_536))
            written += 65_536
            await asyncio.sleep(0)
        assert near.transport.get_write_buffer_size() > 100_000
        held = len(far.received)
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(far.received) == held
        far.transport.resume_reading()
        await near.until(lambda end: "resume" in end.said)
        await far.until(lambda end: len(end.received) == written)
        assert near.transport.get_write_buffer_size() == 0


@pytest.mark.parametrize(("end", "is_all"), [("close", True), ("abort", False)])
async def test_a_close_waits_for_what_is_written_and_an_abort_does_not(end, is_all):
    async with pair() as (near, far, _):
        far.transport.pause_reading()
        near.transport.write(bytes(32 << 20))
        getattr(near.transport, end)()
        await asyncio.sleep(0)
        assert ("lost" in near.said) is False or not is_all
        far.transport.resume_reading()
    assert (len(far.received) == 32 << 20) is is_all


async def test_a_connection_that_is_turned_away_ends():
    bound, come = loop_network().bind(HOST, 0), asyncio.Queue[Accepted]()
    near = End()
    bound.listen(come.put_nowait)
    await asyncio.get_running_loop().create_connection(lambda: near, HOST, bound.port)
    (await come.get()).close()
    await near.until(lambda end: "lost" in end.said)
    bound.close()


async def test_an_address_has_one_owner_and_is_free_when_that_gives_it_up():
    network = loop_network()
    bound = network.bind(HOST, 0)
    bound.listen(lambda _connection: None)
    for host in (HOST, "0.0.0.0"):
        with pytest.raises(OSError, match="already in use"):
            network.bind(host, bound.port)
    other = network.bind(HOST, 0)
    assert other.port != bound.port
    other.close()
    bound.close()
    again = network.bind(HOST, bound.port)
    assert again.port == bound.port
    again.close()


async def test_nobody_is_reached_where_nobody_listens():
    network, loop = loop_network(), asyncio.get_running_loop()
    bound = network.bind(HOST, 0)
    with pytest.raises(ConnectionRefusedError):
        await loop.create_connection(End, HOST, bound.port)
    bound.close()
    with pytest.raises(ConnectionRefusedError):
        await loop.create_connection(End, HOST, bound.port)


async def test_an_address_of_all_interfaces_is_reached_by_each():
    async with pair("0.0.0.0") as (near, far, _):
        near.transport.write(b"x")
        await far.until(lambda end: end.received)


def test_on_the_way_to_this_machine_the_address_is_loopback():
    assert own_ip("127.0.0.1:9876") == "127.0.0.1"
    if socket.has_ipv6:
        assert own_ip("[::1]:9876") in ("::1", "127.0.0.1")


def test_an_address_that_leads_nowhere_is_no_error():
    assert own_ip("no-such-host.invalid:9876") == "127.0.0.1"
