"""Thousands of connections with broken HTTP/2 or gRPC cost neither the server nor a good client, and leave nothing behind.

They come in memory, under virtual time. COMETMQ_FUZZ_SEED repeats a run; `make fuzz ARGS='--frames 5000000'` makes 100,000
connections.
"""

import asyncio
import gzip
import logging
import os
import random
import re

import pytest
from jh2.hpack import Encoder

from cometmq.net.loop import loop_clock
from cometmq.proxy.grpc.server import GrpcServer
from tests.support.grpc_services import TestedServices
from tests.support.h2_client import H2Client
from tests.support.h2_frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    HELLO,
    PADDED,
    PING,
    PRIORITY,
    WITH_PRIORITY,
    block,
    body_frames,
    frame,
    message,
    request,
    request_fields,
    reset,
    settings,
    window_update,
)
from tests.support.virtual import run_virtually

FRAMES = int(os.environ.get("COMETMQ_FUZZ_FRAMES", "100000"))
CONNECTIONS = FRAMES // 50
SEED = int(os.environ.get("COMETMQ_FUZZ_SEED", "0")) or random.randrange(1, 2**31)
ROUND = 50  # Connections before a good client is asked and the server looked at.

pytestmark = pytest.mark.timeout(300 + CONNECTIONS // 20)


class BadClients:
    """Makes what bad clients send: frames in any order, and right ones with wrong bytes."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._next = 1  # The stream of the next call.
        self._open: list[int] = []
        self._encoder: Encoder | None = None

    def said(self) -> bytes:
        """All that one client sends."""
        chance = self._chance
        if chance.random() < 0.03:
            return chance.randbytes(chance.randrange(1, 300))
        self._next, self._open = 1, []
        self._encoder = Encoder() if chance.random() < 0.5 else None
        said = bytearray(
            HELLO + b"".join(self._frame() for _ in range(chance.randrange(1, 40)))
        )
        if chance.random() < 0.3:
            for _ in range(chance.choice((1, 1, 2, 10))):
                self._damage(said)
        return bytes(said)

    def pieces(self, said: bytes) -> list[bytes]:
        """The same in a few reads."""
        cuts = sorted(
            self._chance.randrange(len(said) + 1) for _ in range(self._chance.randrange(4))
        )
        return [said[a:b] for a, b in zip((0, *cuts), (*cuts, len(said)), strict=True)]

    def _damage(self, said: bytearray) -> None:
        chance = self._chance
        at = chance.randrange(len(said))
        kind = chance.randrange(4)
        if kind == 0:
            said[at] = chance.randrange(256)
        elif kind == 1:
            said[at : at + chance.randrange(1, 30)] = b""
        elif kind == 2:
            said[at:at] = chance.randbytes(chance.randrange(1, 30))
        else:
            said[at:at] = said[at : at + chance.randrange(1, 60)]
        said += b"\0" * (not said)

    def _priority(self) -> bytes:
        """Depends on a stream that is open, was, or will be, on none, or on itself."""
        on = self._chance.choice([0, *range(1, self._next + 4, 2)])
        return on.to_bytes(4) + b"\1"

    def _frame(self) -> bytes:
        chance = self._chance
        if not self._open or chance.random() < 0.4:
            return self._call(is_whole=chance.random() < 0.7)
        stream = chance.choice(self._open)
        if chance.random() < 0.02:
            stream = chance.choice((self._next, 1, 3, 0, 2, chance.randrange(2**31)))
        usual = (
            lambda: self._ended(
                stream,
                body_frames(
                    stream, message(chance.randbytes(chance.randrange(50))), is_last=True
                ),
            ),
            lambda: body_frames(stream, message(gzip.compress(b"x" * 900), flag=1)),
            lambda: body_frames(stream, chance.randbytes(chance.randrange(20))),
            lambda: self._ended(stream, reset(stream, chance.randrange(20))),
            lambda: settings([(4, chance.choice((0, 1, 100, 65_535)))]),
            lambda: window_update(chance.choice((1, 1000, 1 << 20)), stream),
            lambda: window_update(1 << 20),
            lambda: frame(PING, bytes(8)),
            lambda: body_frames(stream, message(chance.randbytes(40_000))),
            lambda: frame(DATA, b"\3" + b"text" + bytes(3), stream=stream, flags=PADDED),
            lambda: frame(PRIORITY, self._priority(), stream=stream),
            lambda: frame(chance.choice((GOAWAY, 10, 77)), chance.randbytes(9)),
            lambda: self._ended(stream, self._head(stream, [(b"x-end", b"it")], END_STREAM)),
        )
        wrong = (
            lambda: settings([(chance.randrange(8), chance.choice((0, 1, 2**31, 2**32 - 1)))]),
            lambda: window_update(chance.choice((0, 2**31 - 1)), stream),
            lambda: request(stream, request_fields(b"/t.T/Echo", (b"X", b"y")), is_last=True),
            lambda: frame(
                HEADERS, chance.randbytes(chance.randrange(40)), stream=self._next, flags=END_HEADERS
            ),
            lambda: frame(
                chance.randrange(12), chance.randbytes(chance.choice((0, 4, 5, 8, 30))),
                stream=stream, flags=chance.randrange(256),
            ),
        )  # fmt: skip
        return chance.choice(wrong if chance.random() < 0.05 else usual)()

    def _ended(self, stream: int, said: bytes) -> bytes:
        if stream in self._open:
            self._open.remove(stream)
        return said

    def _call(self, *, is_whole: bool) -> bytes:
        chance = self._chance
        stream = self._next
        self._next += 2
        if not is_whole:
            self._open.append(stream)
        path = chance.choice((b"Echo", b"Many", b"Wait", b"Fail", b"Refuse", b"Talk", b"None"))
        more = []
        if chance.random() < 0.5:
            more.append(
                (b"grpc-timeout", b"%d%c" % (chance.randrange(200), chance.choice(b"HMSmunx")))
            )
        if chance.random() < 0.3:
            more.append((b"grpc-encoding", chance.choice((b"gzip", b"br"))))
        if chance.random() < 0.02:
            more.append((b"content-length", b"%d" % chance.randrange(30)))
        head = self._head(stream, request_fields(b"/t.T/" + path, *more), 0)
        body = message(b"%d %d" % (chance.randrange(5), chance.randrange(30_000)))
        return head + (body_frames(stream, body, is_last=True) if is_whole else b"")

    def _head(self, stream: int, fields: list[tuple[bytes, bytes]], flags: int) -> bytes:
        """Headers, compressed well or not at all, as one frame or two."""
        chance = self._chance
        if self._encoder is None:
            payload = block(fields, is_indexed=chance.random() < 0.5)
        else:
            payload = self._encoder.encode(fields)
        kind = chance.random()
        if kind < 0.1:
            payload, flags = b"\1" + payload + bytes(1), flags | PADDED
        elif kind < 0.2:
            payload, flags = self._priority() + payload, flags | WITH_PRIORITY
        elif kind < 0.4:
            end = chance.randrange(len(payload))
            return frame(HEADERS, payload[:end], stream=stream, flags=flags) + frame(
                CONTINUATION, payload[end:], stream=stream, flags=END_HEADERS
            )
        return frame(HEADERS, payload, stream=stream, flags=flags | END_HEADERS)


class WatchedServer(GrpcServer):
    """Keeps why it ended connections."""

    def __init__(self, services: TestedServices) -> None:
        super().__init__(services.table, loop_clock())
        self.faults: set[str] = set()

    def refuse(self, who: str, why: str) -> None:
        self.faults.add(why)
        super().refuse(who, why)


async def attack(connections: int, seed: int) -> None:
    services = TestedServices()
    server = WatchedServer(services)
    port = await server.start("127.0.0.1", 0)
    bad = BadClients(seed)
    good = await H2Client.connect(port)
    for number in range(connections):
        client = await H2Client.connect(port, b"")
        client.answers_pings = False
        for piece in bad.pieces(bad.said()):
            client.say(piece)
            await asyncio.sleep(0)
        if number % 3:
            client.transport.abort()
        if number % ROUND == ROUND - 1:
            answer = await good.answer(good.call(b"still here?"))
            assert answer.body == message(b"still here?"), f"seed {seed}"
    await asyncio.sleep(400)  # All limits of time have passed.
    good = await H2Client.connect(port)
    assert (await good.answer(good.call(b"after all"))).body == message(b"after all")
    assert len(server.peers) == 1
    assert server.held == 0
    assert services.waiting == []
    assert all(each.events[-1] == "closed" for each in services.talks)
    assert not any(server.deadlines._buckets.values())
    await server.close()
    # Each kind of client was there, and no fault is one of ours ("KeyError: 5").
    assert len(services.calls) > connections // 5
    assert len(services.talks) > connections // 20
    assert len(server.faults) > 20
    ours = {each for each in server.faults if re.match(r"[A-Za-z]+(Error|Exception)\b", each)}
    assert not ours, f"seed {seed}"


def test_broken_connections_cost_neither_the_server_nor_a_good_client(caplog):
    print(f"{CONNECTIONS} connections, seed {SEED}")
    with caplog.at_level(logging.WARNING):
        run_virtually(attack(CONNECTIONS, SEED))
    # Services of the test that fail are logged; nothing else is an error.
    errors = {each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR}
    assert errors <= {f"a call of {method} failed" for method in ("Fail", "Many", "Talk")}, (
        errors
    )
