"""Addresses that others give: one with a port that there is not is refused, on each event loop."""

from __future__ import annotations

import asyncio
import socket

import pytest
import uvloop

from cometmq.model.address import split_address
from cometmq.model.errors import ConnectError
from cometmq.net.channels import Channels
from cometmq.net.clock import SystemClock
from cometmq.net.virtual_loop import VirtualLoop


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
