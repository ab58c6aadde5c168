"""Both HTTP/2 engines, given what good and bad clients send: the same events, refusals and answers, in bounded memory.

Without nghttp2 this fails where its headers are installed, or COMETMQ_BOTH_ENGINES is set. COMETMQ_FUZZ_SEED repeats a
run; `make fuzz ARGS='--frames 5000000'` makes 100,000 connections, as `make long` does.
"""

import os
import random
from collections import Counter, defaultdict
from typing import NamedTuple

import pytest
from jh2.hpack import Decoder

from cometmq.wire.h2.engine import (
    BodyPart,
    Ended,
    Event,
    H2Engine,
    H2Error,
    Opened,
)
from tests.fuzz.test_grpc_frames import CONNECTIONS, SEED, BadClients
from tests.support.h2_engines import ARE_BOTH_NEEDED, BUILDS, ENGINES
from tests.support.h2_frames import (
    ACK,
    DATA,
    END_STREAM,
    GOAWAY,
    HEADERS,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Frame,
    frames_in,
)
from tests.support.memory import MIB, anonymous_bytes

HEAD = ((b":status", b"200"), (b"content-type", b"application/grpc"))
TRAILERS = ((b"grpc-status", b"0"), (b"grpc-message", b"all is well"))
# Of the memory of the process, whose allocators keep some.
GROWTH_MAX = 8 * MIB

pytestmark = [
    pytest.mark.timeout(300 + CONNECTIONS // 20),
    pytest.mark.skipif(
        "nghttp2" not in ENGINES and not ARE_BOTH_NEEDED,
        reason="nghttp2's headers are not installed",
    ),
]


class Goaway(NamedTuple):
    code: int


class OnlyOneRefuses(Exception):
    """What is known: jh2 does not see how a Huffman code is padded, nor into a header block before its end.

    And it refuses headers that have more padding than fields, which is allowed. Before release 1.67 nghttp2 does not refuse
    a setting that makes windows too large before the next frames.
    """


class Side:
    """One engine with a service, and what came of both so far.

    Attributes:
        told: What it has told the service since `said` was called, except bodies.
        bodies: The bodies of requests, by their streams.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.engine: H2Engine = ENGINES[name]()
        self.told: list[Event] = []
        self.bodies = defaultdict[int, bytearray](bytearray)
        self._decoder = Decoder()
        self._reset: set[int] = set()
        self._sent = b""

    def handle(self, now: float) -> None:
        """Let the engine handle its next frames, and the service answer."""
        for event in self.engine.events(now):
            if isinstance(event, BodyPart):
                self.bodies[event.stream] += event.data
            else:
                self.told.append(event)
                self._serve(event)

    def _serve(self, event: Event) -> None:
        """Answer in one of ten ways, which the stream decides."""
        engine, stream = self.engine, event.stream
        way = stream // 2 % 10
        if isinstance(event, Opened):
            if way == 0:
                engine.send_head(stream, TRAILERS, is_last=True)
            elif way == 1:
                engine.reset(stream, H2Error.CANCEL)
            elif way == 2:
                engine.send_head(stream, HEAD)
                engine.send(stream, b"early")
        elif isinstance(event, Ended) and way != 3:
            if way != 2:
                engine.send_head(stream, HEAD)
            for size in (1000, 0, 17, 30_000 * (way == 4)):
                engine.send(stream, b"%05d" % stream * (size // 5))
            if way != 5:
                engine.send_head(stream, TRAILERS, is_last=True)

    def sent(self) -> dict[int, list[object]]:
        """What the engine has sent since the last call, by streams: what it means, as its bytes may differ."""
        self._sent += self.engine.output(1 << 20)
        frames = frames_in(self._sent)
        assert sum(9 + len(each.payload) for each in frames) == len(self._sent)
        self._sent = b""
        meant = defaultdict[int, list[object]](list)
        for each in frames:
            self._note(each, meant[each.stream])
        meant[0].sort(key=str)  # Their order means nothing.
        return {stream: items for stream, items in meant.items() if items}

    def _note(self, frame: Frame, items: list[object]) -> None:
        is_last = bool(frame.flags & END_STREAM)
        if frame.kind == HEADERS:
            fields = [(bytes(name), bytes(value)) for name, value in self._decoder.decode(frame.payload, raw=True)]  # fmt: skip
            items.append((fields, is_last))
        elif frame.kind == DATA:
            assert not is_last
            if items and isinstance(items[-1], bytes):
                items[-1] += frame.payload
            else:
                items.append(frame.payload)
        elif frame.kind == RST_STREAM:
            if (
                frame.stream not in self._reset
            ):  # jh2 repeats it for each frame that was on its way.
                self._reset.add(frame.stream)
                items.append(frame.code)
        elif frame.kind == GOAWAY:
            items.append(Goaway(frame.code))
        elif frame.kind == SETTINGS and not frame.flags & ACK:
            pairs = {frame.payload[at : at + 6] for at in range(0, len(frame.payload), 6)}
            items.append(sorted(pairs & SETTINGS_THAT_MATTER))
        elif frame.kind != WINDOW_UPDATE:
            items.append((frame.kind, frame.flags, frame.payload))


SETTINGS_THAT_MATTER = {
    number.to_bytes(2) + value.to_bytes(4)
    for number, value in ((1, 16 << 10), (3, 10_000), (4, 1 << 20), (6, 16 << 10))
}


class Twins:
    """Both engines, given the same."""

    def __init__(self) -> None:
        self.jh2, self.nghttp2 = self.sides = Side("jh2"), Side("nghttp2")

    def say(self, piece: bytes, now: float) -> None:
        for side in self.sides:
            side.engine.receive(piece)
        while self.jh2.engine.waiting or self.nghttp2.engine.waiting:
            assert self.jh2.engine.waiting == self.nghttp2.engine.waiting
            for side in self.sides:
                side.handle(now)
            if self.is_over():
                return
            self._compare(now)

    def is_over(self) -> bool:
        """Whether the connection has ended, as it then has for both, with the same code."""
        faults = [side.engine.fault for side in self.sides]
        if not any(faults):
            return False
        codes = [self._goaways(side) for side in self.sides]
        if codes[0] != codes[1] and (
            "invalid padding" in faults[0]
            or "May not increment" in faults[0]
            or (not faults[0] and codes[1][-1:] == [H2Error.COMPRESSION_ERROR])
        ):
            raise OnlyOneRefuses
        assert all(faults), faults
        assert codes[0] == codes[1], faults
        assert not any(side.engine.has_output or side.engine.waiting for side in self.sides)
        return True

    @staticmethod
    def _goaways(side: Side) -> list[int]:
        return [item.code for item in side.sent().get(0, ()) if isinstance(item, Goaway)]

    def _compare(self, now: float) -> None:
        jh2, nghttp2 = self.sides
        assert jh2.told == nghttp2.told
        for event in jh2.told:
            if isinstance(event, Ended):
                assert jh2.bodies[event.stream] == nghttp2.bodies[event.stream]
        for stream, body in jh2.bodies.items():
            # Of a frame that is not complete, jh2 tells nothing.
            assert nghttp2.bodies[stream].startswith(body)
        jh2.told.clear()
        nghttp2.told.clear()
        assert jh2.sent() == nghttp2.sent()
        assert jh2.engine.unsent == nghttp2.engine.unsent
        assert jh2.engine.has_output == nghttp2.engine.has_output
        streams = range(1, 60, 2)
        blocked = [[side.engine.is_blocked(each) for each in streams] for side in self.sides]
        assert blocked[0] == blocked[1]
        stalled = [side.engine.stalled(now, 1.0) for side in self.sides]
        assert stalled[0] == stalled[1]


def talk(bad: BadClients, chance: random.Random) -> str:
    """One connection; returns why it ended, as the engine on nghttp2 says it."""
    twins, now = Twins(), 0.0
    for piece in bad.pieces(bad.said()):
        twins.say(piece, now)
        now += 0.4
        if chance.random() < 0.05:
            for side in twins.sides:
                side.engine.ping()
        if chance.random() < 0.02:
            is_final = chance.random() < 0.5
            for side in twins.sides:
                side.engine.go_away(is_final=is_final)
    return twins.nghttp2.engine.fault


def test_both_engines_tell_refuse_and_send_the_same():
    assert "nghttp2" in ENGINES, BUILDS
    print(f"{CONNECTIONS} connections, seed {SEED}")
    bad, chance = BadClients(SEED), random.Random(SEED)
    faults, base = Counter[str](), 0
    for number in range(-CONNECTIONS // 10, CONNECTIONS):
        if not number:
            base = anonymous_bytes(os.getpid())
        try:
            faults[talk(bad, chance)] += 1
        except OnlyOneRefuses:
            faults["only one refuses"] += 1
        except BaseException as error:
            error.add_note(f"connection {number}, seed {SEED}")
            raise
    assert anonymous_bytes(os.getpid()) - base < GROWTH_MAX
    assert faults["only one refuses"] <= 2 + CONNECTIONS // 1000
    assert faults[""] > CONNECTIONS // 4
    assert len(faults) > 30
