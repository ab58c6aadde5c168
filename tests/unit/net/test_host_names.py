"""IPs of host names: from the machine's own resolver, few questions at a time, and no answer is waited for too long."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest
import uvloop

from cometmq.model.address import split_address
from cometmq.model.errors import ConnectError
from cometmq.net.channels import Channels
from cometmq.net.clock import SystemClock
from cometmq.net.host_names import KEPT_SECONDS, NAMES_MAX, WAIT_SECONDS, HostNames
from cometmq.net.loop import loop_clock
from cometmq.net.own_machine import is_own_machine, plain_ip
from cometmq.net.virtual_loop import VirtualLoop


@pytest.mark.parametrize("make_loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_names_are_looked_up_and_those_of_nobody_have_none(make_loop):
    async def ask():
        names = HostNames(SystemClock())
        others = ("nobody.invalid", "a..b", "x" * 300, "", "\0")
        return await names.ips_of("localhost"), [await names.ips_of(each) for each in others]

    with asyncio.Runner(loop_factory=make_loop) as runner:
        local, others = runner.run(ask())
    assert "127.0.0.1" in local
    assert others == [frozenset()] * len(others)


@pytest.mark.parametrize("make_loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_a_resolver_that_is_mute_holds_neither_other_names_nor_the_end(make_loop, monkeypatch):
    goes, resolve, asked = threading.Event(), socket.getaddrinfo, list[str]()

    def mute(name, *given, **kind):
        if name != "localhost":
            asked.append(name)
            goes.wait(30)
        return resolve(name, *given, **kind)

    async def ask():
        names = HostNames(SystemClock())
        lost = asyncio.gather(*[names.ips_of(f"{number}.example") for number in range(9)])
        await asyncio.sleep(0.5)
        assert len(asked) == 9
        assert "127.0.0.1" in await names.ips_of("localhost")
        assert await lost == [frozenset()] * 9

    monkeypatch.setattr(socket, "getaddrinfo", mute)
    began = SystemClock().monotonic()
    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(ask())
    assert SystemClock().monotonic() - began < 2 * WAIT_SECONDS + 5
    goes.set()


class Resolver:
    """The system's resolver, whose answers come when they are let go; under virtual time."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.goes = asyncio.Event()
        loop: Any = asyncio.get_running_loop()
        loop.getaddrinfo = self.getaddrinfo

    async def getaddrinfo(self, host, port, **_kind):
        self.asked.append(host)
        await self.goes.wait()
        return [(None, None, 0, "", ("::ffff:127.0.0.9", 0, 0, 0))]


def in_virtual_time(main):
    async def begin():
        await main(Resolver(), HostNames(loop_clock()))

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(begin())


def test_a_name_is_asked_for_once_at_a_time_and_kept_for_a_while():
    async def ask(resolver, names):
        began = loop_clock().monotonic()
        found = await asyncio.gather(*[names.ips_of("a") for _ in range(9)])
        assert found == [frozenset()] * 9
        assert loop_clock().monotonic() - began == pytest.approx(WAIT_SECONDS, abs=0.01)
        resolver.goes.set()
        assert await names.ips_of("a") == {"127.0.0.9"}
        assert resolver.asked == ["a"]
        await asyncio.sleep(KEPT_SECONDS)
        assert await names.ips_of("a") == {"127.0.0.9"}
        assert resolver.asked == ["a", "a"]

    in_virtual_time(ask)


def test_no_more_names_than_a_few_are_asked_for():
    async def ask(resolver, names):
        await asyncio.gather(*[names.ips_of(f"n{number}") for number in range(100)])
        assert len(resolver.asked) == NAMES_MAX
        resolver.goes.set()
        await asyncio.sleep(KEPT_SECONDS)
        assert await names.ips_of("another") == {"127.0.0.9"}

    in_virtual_time(ask)


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("127.0.0.1:1", ("127.0.0.1", 1)),
        ("broker.example:65535", ("broker.example", 65535)),
        ("[fd00::2]:10911", ("fd00::2", 10911)),
        ("fd00:0:0:0:0:0:0:2:10911", ("fd00:0:0:0:0:0:0:2", 10911)),  # As Java writes it.
    ],
)
def test_an_address_is_a_host_and_a_port(address, place):
    assert split_address(address) == place


PORTS = ("0", "-1", "65536", "70000", "", "x", "²", " 1", "1_0", "9" * 5000)


@pytest.mark.parametrize(
    "address", ["", "host", ":1", "[]:1", *(f"host:{port}" for port in PORTS)]
)
def test_other_addresses_are_refused(address):
    with pytest.raises(ValueError, match=r"must be host:port, with a port from 1 to 65535$"):
        split_address(address)


@pytest.mark.parametrize(
    "make_loop", [uvloop.new_event_loop, asyncio.new_event_loop, VirtualLoop]
)
def test_a_port_that_there_is_not_is_no_other_port(make_loop):
    """Port 65536 and more is port 0 and more to uvloop, and an OverflowError to asyncio."""

    async def connect(port):
        channels = Channels(SystemClock())
        with pytest.raises(ConnectError, match=f":{port}: an address must be host:port"):
            await channels.get(f"127.0.0.1:{port}")

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1] + 65536
        with asyncio.Runner(loop_factory=make_loop) as runner:
            runner.run(connect(port))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("::ffff:10.9.8.7", "10.9.8.7"),
        ("::1", "::1"),
        ("fe80::1%eth0", "fe80::1"),
    ],
)
def test_an_address_is_compared_without_its_dress(text, plain):
    assert plain_ip(text) == plain


@pytest.mark.parametrize(
    ("peer", "local", "is_own"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.9", "127.0.0.1", True),
        ("::1", "::1", True),
        ("10.9.8.7", "10.9.8.7", True),
        ("10.9.8.6", "10.9.8.7", False),
        ("fe80::2", "fe80::1", False),
    ],
)
def test_own_is_loopback_or_the_same_address(peer, local, is_own):
    assert is_own_machine(peer, local) is is_own
