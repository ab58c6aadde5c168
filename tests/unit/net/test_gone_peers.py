"""A connection that is gone leaves nothing: no circle that would wait for the collector, which may come very late here."""

from __future__ import annotations

import asyncio
import gc
import ssl
from typing import Any

import pytest

from cometmq.codec.remoting import Command
from cometmq.codec.signer import Signer
from cometmq.net.loop import new_loop
from cometmq.net.peer import Peer
from cometmq.net.tls import TlsMode
from tests.support import certificates
from tests.support.accounts import ADMIN, account, write_accounts
from tests.support.frames import json_frame
from tests.unit.broker.conftest import eventually, serve

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
