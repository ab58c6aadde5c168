"""The port of a member, under virtual time: what another member that knows the secret may not do."""

from __future__ import annotations

import asyncio

from cometmq.broker.replication.group import peer_port
from cometmq.broker.replication.group.greeting import Hello, KnownPlaces, OwnGreeting
from cometmq.broker.replication.group.peer_port import PeerPort
from cometmq.net.loop import loop_clock
from cometmq.replication.group.wire import GroupFrames, encode_frame
from tests.unit.broker.conftest import eventually

PINGS = b"".join(encode_frame({"type": "ping"})) * 20_000


class Pinging(asyncio.Protocol):
    """A member that pings once it is greeted, and reads no answer."""

    def __init__(self) -> None:
        self.hello = Hello(OwnGreeting("g", "n1", 1, "127.0.0.1:1", None), "n0")

    def connection_made(self, transport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in GroupFrames().received(data):
            answer = self.hello.answer(frame)
            self.transport.writelines(answer or [PINGS])
            if answer is None:
                self.transport.pause_reading()


class Everybody:
    refusal = ""

    def has(self, ip: str) -> bool:
        return True

    async def admits(self, ip: str) -> bool:
        return True


async def test_a_member_that_pings_and_does_not_read_is_closed(monkeypatch):
    monkeypatch.setattr(peer_port, "UNSENT_SIZE_MAX", 50_000)
    port = PeerPort(
        OwnGreeting("g", "n0", 1, "127.0.0.1:2", None), clock=loop_clock(), admission=Everybody(), tls=None,
        on_message=lambda *_: None,
    )  # fmt: skip
    port.admit(frozenset({"n1"}), KnownPlaces())
    number = await port.door.start("127.0.0.1", 0)
    transport, _ = await asyncio.get_running_loop().create_connection(
        Pinging, "127.0.0.1", number
    )
    await eventually(lambda: port.door.refused and port.address_of("n1") is None)
    transport.abort()
    await port.door.close()
