"""Peers on raw sockets that send half an answer, or read nothing: a channel gives them up, others do not notice."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from cometmq.codec.remoting import Command
from cometmq.codec.signer import Signer
from cometmq.model.errors import CometError, ConnectionLost
from cometmq.net import channel as channel_module
from cometmq.net.channels import Channels
from cometmq.net.clock import SystemClock
from cometmq.net.loop import new_loop
from cometmq.net.peer import Peer
from cometmq.net.tls import TlsMode
from tests.support import certificates
from tests.support.accounts import ADMIN, account, write_accounts
from tests.support.frames import json_frame
from tests.unit.broker.conftest import eventually, serve

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
WAIT_MS = 30_000


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch):
    """A second is a fiftieth of one."""
    monkeypatch.setattr(channel_module, "_LOOK_SECONDS", 0.02)


@contextlib.asynccontextmanager
async def talking_to(talk: Talk) -> AsyncIterator[tuple[Channels, str]]:
    done: list[asyncio.StreamWriter] = []

    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        done.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await talk(reader, writer)

    server = await asyncio.start_server(run, "127.0.0.1", 0)
    channels = Channels(SystemClock())
    try:
        yield channels, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        await channels.close()
        server.close()
        for writer in done:
            writer.close()


@pytest.mark.parametrize(
    "begin",
    [
        b"\0",
        struct.pack(">II", 1000, 900) + b'{"code":0',
        struct.pack(">II", 15 << 20, 14 << 20) + bytes(300_000),
    ],
)
async def test_half_an_answer_that_stays_is_given_up(begin):
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(begin)
        await reader.read()

    async with talking_to(talk) as (channels, address):
        with pytest.raises(ConnectionLost):
            await channels.call(address, Command(105), timeout_ms=WAIT_MS)


async def test_a_slow_answer_that_gets_on_is_waited_for():
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"}")
        opaque = request.split(b'"opaque":')[1].split(b",")[0].rstrip(b"}")
        header = b'{"code":0,"flag":1,"opaque":' + opaque + b"}"
        body = bytes(300_000)
        answer = struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body
        for at in range(0, len(answer), 5_000):
            writer.write(answer[at : at + 5_000])
            await writer.drain()
            await asyncio.sleep(0.01)  # A quick line would need no patience.
        await reader.read()

    async with talking_to(talk) as (channels, address):
        answer = await channels.call(address, Command(105), timeout_ms=WAIT_MS)
        assert len(answer.body) == 300_000


async def test_a_peer_that_reads_nothing_is_given_up_and_who_waits_to_write_learns_it():
    async def talk(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with talking_to(talk) as (channels, address):
        channel = await channels.get(address)
        calls = [
            channel.start_call(Command(105, body=bytes(1 << 20)), timeout_ms=WAIT_MS)
            for _ in range(20)
        ]
        await asyncio.sleep(0)
        with pytest.raises(ConnectionLost):
            await channel.drain()
        for call in calls:
            with pytest.raises(ConnectionLost):
                await call


async def test_connections_that_are_closed_at_once_are_made_ever_more_slowly():
    made = 0

    async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal made
        made += 1
        writer.transport.abort()

    async with talking_to(talk) as (channels, address):
        began = asyncio.get_running_loop().time()
        for _ in range(6):
            with pytest.raises(CometError):
                await channels.call(address, Command(105), timeout_ms=WAIT_MS)
        # 0, 0, 50, 100, 200 and 400 ms.
        assert asyncio.get_running_loop().time() - began >= 0.7
        assert made == 6


RUNTIME, LARGE = 28, bytes(100_000)
WHOLE = json_frame(RUNTIME)
SIGNED = json_frame(RUNTIME, Signer(ADMIN).signed(Command(RUNTIME)).fields)
# What somebody says before he goes, and whether he is answered first.
SAID = {
    "nothing": (b"", False),
    "half a header": (WHOLE[:20], False),
    "what is no frame": (b"\xff" * 100, False),
    "what nobody has signed": (WHOLE, True),
    "what nobody has signed, and is large": (json_frame(RUNTIME, body=LARGE), True),
    "half of what an administrator has signed": (SIGNED[:-20], False),
    "what an administrator has signed": (SIGNED, True),
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return certificates.signed(
        certificates.authority(tmp_path_factory.mktemp("certificates")), "server"
    )


def peers() -> list[Peer]:
    return [each for each in gc.get_objects() if isinstance(each, Peer)]


def anybody() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def come_and_go(address: str, data: bytes, *, is_answered: bool, is_tls: bool) -> None:
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(
        host, int(port), ssl=anybody() if is_tls else None
    )
    writer.write(data)
    await eventually(peers)
    if is_answered:
        assert await reader.readexactly(8)
    writer.close()


async def see_them_go(folder, pair, mode: TlsMode, *, is_tls: bool) -> None:
    """Let each come to a broker with access control, and wait until nothing is left of it."""
    write_accounts(folder / "plain_acl.yml", account(ADMIN, admin=True))
    keys: dict[str, Any] = {
        "is_acl_enabled": True,
        "acl_folder": str(folder),
        "metrics_port": 0,
    }
    cert, key = map(str, pair)
    tls: dict[str, Any] = {"tls_mode": mode, "tls_cert_file": cert, "tls_key_file": key}
    # Some are closed before they are served; they must not stay either.
    is_served = mode is TlsMode.permissive or is_tls == (mode is TlsMode.enforcing)
    async with serve(folder / "store", **keys, **tls) as running:
        for data, is_answered in SAID.values():
            try:
                await come_and_go(
                    running.broker.address,
                    data,
                    is_answered=is_answered and is_served,
                    is_tls=is_tls,
                )
            except (ssl.SSLError, ConnectionError):
                assert not is_served
            await eventually(lambda: not peers())


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("mode", list(TlsMode), ids=[mode.name for mode in TlsMode])
@pytest.mark.parametrize("loop", [new_loop, asyncio.new_event_loop], ids=["ours", "asyncio's"])
@pytest.mark.usefixtures("no_collector")
def test_it_dies_with_its_connection(tmp_path, pair, mode, is_tls, loop):
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(see_them_go(tmp_path, pair, mode, is_tls=is_tls))
