"""A door: a connection can end in each of its steps, and then neither its socket nor its place is left."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from cometmq.model.errors import NetError
from cometmq.net.clock import SystemClock
from cometmq.net.connections import (
    OWN_MACHINE,
    Bounds,
    Connections,
    ServedProtocol,
    network_of,
)
from cometmq.net.door import LINE_SECONDS, WAITING_MAX, Door
from cometmq.net.loop import loop_clock
from cometmq.net.tls import ServerFiles, ServerTls, TlsMode
from cometmq.net.virtual_loop import VirtualLoop
from tests.support import certificates
from tests.support.hand_clock import HandClock
from tests.support.hand_connection import connection_from

HOST = "127.0.0.1"


class Echo(ServedProtocol):
    transport: Any = None
    has_read = False

    def __init__(self, door):
        self.door = door

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.has_read = True
        self.transport.write(data)

    def connection_lost(self, _exc):
        self.door.forget(self)

    def abort(self):
        if self.transport is not None:
            self.transport.abort()


def echoes(clock, **more):
    door = Door(lambda _: Echo(door), clock, name="echo port", **{"bounds": Bounds(), **more})
    return door


class Known:
    """Asks about each address until it is told."""

    refusal = "not on the list"

    def __init__(self):
        self.ips, self.asked, self.is_told = set(), 0, asyncio.Event()

    def has(self, ip):
        return ip in self.ips

    async def admits(self, ip):
        self.asked += 1
        await self.is_told.wait()
        return self.has(ip)


OPENED: list[asyncio.StreamWriter] = []


def close_opened():
    while OPENED:
        OPENED.pop().close()


async def connect(port):
    reader, writer = await asyncio.open_connection(HOST, port)
    OPENED.append(writer)
    return reader, writer


async def is_answered(port):
    with contextlib.suppress(ConnectionError):
        reader, writer = await connect(port)
        writer.write(b"x")
        return await reader.read(1) == b"x"


async def is_closed(reader):
    with contextlib.suppress(ConnectionError):
        return await asyncio.wait_for(reader.read(1), 5) == b""
    return True


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """A port that takes TLS and cleartext, and so looks at the first byte."""
    ca = certificates.authority(tmp_path_factory.mktemp("certificates"))
    cert, key = certificates.signed(ca, "server")
    return ServerTls(TlsMode.permissive, ServerFiles(str(cert), str(key)))


@pytest.mark.parametrize(
    ("has_tls", "said"),
    [(False, b""), (True, b""), (True, b"\x16\x03\x01")],
    ids=["cleartext", "TLS", "in the handshake"],
)
async def test_who_makes_room_is_closed_at_once_even_before_its_first_byte(tls, has_tls, said):
    """With TLS the protocol has no connection yet: it stayed open for 15 s, and the number was no limit."""
    bounds = Bounds(count_max=4, unspoken_seconds=0.0)
    door = echoes(SystemClock(), bounds=bounds, tls=tls if has_tls else None)
    port = await door.start(HOST, 0)
    silent = []
    for _ in range(12):
        reader, writer = await connect(port)
        writer.write(said)
        silent.append(reader)
        await asyncio.sleep(0.01)
    for reader in silent[:8]:
        assert await is_closed(reader)
    assert len(door.peers) == 4
    assert await is_answered(port)
    close_opened()
    await door.close()


async def test_who_leaves_before_its_first_byte_is_no_refusal(tls, monkeypatch):
    """A load balancer that only looks whether the port is open is no warning each minute."""
    monkeypatch.setattr(tls, "mode", TlsMode.enforcing)
    door = echoes(SystemClock(), tls=tls)
    port = await door.start(HOST, 0)
    for _ in range(3):
        (await connect(port))[1].close()
        await asyncio.sleep(0.02)
    assert (len(door.peers), door.refused) == (0, 0)
    close_opened()
    await door.close()


async def test_a_door_closes_at_once_what_came_in_the_same_moment():
    """A task that is cancelled before its first step runs nothing of it: socket and place were left, and closing waited for 4 s."""
    closing: list[asyncio.Task[None]] = []

    def make(_came):
        closing.append(asyncio.ensure_future(door.close()))
        return Echo(door)

    door = Door(make, SystemClock(), name="echo port", bounds=Bounds())
    reader, _ = await connect(await door.start(HOST, 0))
    began = asyncio.get_running_loop().time()
    assert await is_closed(reader)
    await closing[0]
    assert asyncio.get_running_loop().time() - began < 1
    assert not door.peers
    close_opened()


def virtual(main):
    async def run():
        await main()
        close_opened()
        await asyncio.sleep(1)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(run())


def test_who_is_not_known_is_asked_about_and_a_few_wait():
    async def main():
        known = Known()
        door = echoes(loop_clock(), admission=known)
        port = await door.start(HOST, 0)
        come = [await connect(port) for _ in range(WAITING_MAX + 5)]
        for reader, _ in come[WAITING_MAX:]:
            assert await is_closed(reader)
        assert (known.asked, len(door.peers), door.refused) == (WAITING_MAX, 0, 5)
        known.ips.add(HOST)
        known.is_told.set()
        await asyncio.sleep(0.1)
        assert len(door.peers) == WAITING_MAX
        assert await is_answered(port)
        known.ips.clear()
        assert not await is_answered(port)
        known.is_told.clear()
        waits, _ = await connect(port)
        await asyncio.sleep(0.1)
        await door.close()
        assert await is_closed(waits)

    virtual(main)


def test_who_says_nothing_goes_after_15_s_and_who_has_spoken_when_it_is_idle():
    async def main():
        door = echoes(loop_clock())
        port = await door.start(HOST, 0)
        await connect(port)
        _, writer = await connect(port)
        writer.write(b"x")
        for seconds, count in ((14, 2), (7, 1), (95, 1), (35, 0)):
            await asyncio.sleep(seconds)
            assert len(door.peers) == count
        await door.close()

    virtual(main)


def test_who_is_refused_is_counted_and_logged_once_a_minute(caplog):
    async def main():
        door = echoes(loop_clock(), bounds=Bounds(count_max=1, unspoken_seconds=99.0))
        port = await door.start(HOST, 0)
        _, writer = await connect(port)
        for _ in range(3):
            assert not await is_answered(port)
        writer.write(b"x")
        await asyncio.sleep(LINE_SECONDS)
        assert not await is_answered(port)
        assert door.refused == 4
        await door.close()

    virtual(main)
    first, second = (each.message for each in caplog.records if "refused" in each.message)
    assert first.startswith("the echo port refused 127.0.0.1:")
    assert second.endswith("already open (and 2 others since the last line)")


async def test_of_two_doors_with_one_address_the_second_names_it_when_it_listens():
    clock = loop_clock()
    first, second = echoes(clock), echoes(clock)
    try:
        port = first.bind(HOST, 0)
        assert second.bind(HOST, port) == port
        first.serve()
        with pytest.raises(NetError, match=f"cannot listen on {HOST}:{port}: Address already"):
            second.serve()
    finally:
        await first.close()
        await second.close()


LOOPBACK = "127.0.0.1"


class Sitter(ServedProtocol):
    """A protocol without a connection, which notes that it is aborted."""

    is_busy = False

    def __init__(self, *, is_busy: bool) -> None:
        self.is_busy = is_busy
        self.has_read = self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


class Room:
    """Connections under a clock that the test turns."""

    def __init__(self, **bounds: Any) -> None:
        self.clock = HandClock()
        self.connections = Connections(Bounds(**bounds), self.clock)

    def come(self, ip: str, *, has_spoken: bool = False, is_busy: bool = False) -> bool:
        """Let somebody in if there is room."""
        if self.connections.refusal(came := connection_from(ip)) is not None:
            return False
        came.protocol, came.has_spoken = Sitter(is_busy=is_busy), has_spoken
        self.connections.add(came)
        return True

    def of(self, network: str) -> list[Any]:
        """The protocols of the connections of a network."""
        return [each.protocol for each in self.connections if each.network == network]


@pytest.mark.parametrize(
    ("ip", "is_own", "network"),
    [
        ("10.0.0.7", False, "10.0.0.7"),
        ("10.0.0.7", True, OWN_MACHINE),
        ("2001:db8:0:1::5", False, "2001:0db8:0000:0001::/64"),
        ("2001:db8:0:1:2:3:4:5", False, "2001:0db8:0000:0001::/64"),
    ],
)
def test_connections_are_counted_by_network(ip, is_own, network):
    assert network_of(ip, is_own=is_own) == network


@pytest.mark.parametrize(("is_busy", "of_the_own_one"), [(False, 1), (True, 0)])
def test_another_address_always_gets_in_and_the_own_one_waits_for_a_silent_one(
    is_busy, of_the_own_one
):
    room = Room(count_max=4)
    for _ in range(4):
        assert room.come("10.0.0.1", has_spoken=True, is_busy=is_busy)
    crowd = room.of("10.0.0.1")
    assert not room.come("10.0.0.1")
    room.clock.turn(1)
    assert room.come("10.0.0.2")
    assert [each.is_aborted for each in crowd].count(True) == 1
    assert len(room.connections) == 4
    room.clock.turn(60)
    assert room.come("10.0.0.1") is bool(of_the_own_one)
    assert [each.is_aborted for each in crowd].count(True) == 1 + of_the_own_one


def test_who_works_goes_after_who_is_silent():
    room = Room(count_max=4)
    for number in range(4):
        room.come("10.0.0.1", is_busy=number < 2)
    room.clock.turn(1)
    assert [room.come(f"10.0.0.{number}") for number in (2, 3)] == [True, True]
    assert [each.is_busy for each in room.of("10.0.0.1")] == [True, True]


def test_who_works_no_more_may_go_though_another_still_works():
    room = Room(count_max=2)
    for _ in range(2):
        room.come("10.0.0.1", is_busy=True)
    room.clock.turn(60)
    assert not room.come("10.0.0.1")
    room.of("10.0.0.1")[1].is_busy = False
    room.clock.turn(1)
    assert room.come("10.0.0.1")


def test_who_goes_counts_no_more_when_many_come_at_once():
    """They are closed in the loop's next iteration, and up to 128 come in this one."""
    room = Room(count_max=16)
    assert all(room.come(LOOPBACK) for _ in range(16))
    room.clock.turn(3)
    for _ in range(16):
        assert room.come(LOOPBACK)
        assert len(room.connections) == 16
    assert not room.come(LOOPBACK)


def test_one_address_has_so_many_and_the_own_machine_as_many_as_there_are():
    room = Room(count_max=100, of_network_max=3)
    assert [room.come("10.0.0.1") for _ in range(5)] == [True, True, True, False, False]
    assert room.come("10.0.0.2")
    assert all(room.come(LOOPBACK) for _ in range(20))
    room.connections.forget(room.of("10.0.0.1")[0])
    assert room.come("10.0.0.1")
