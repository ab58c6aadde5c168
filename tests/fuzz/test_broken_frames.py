"""100,000 broken frames cost neither a connection nor a process, and no peer ever sees a traceback.

COMETMQ_FUZZ_SEED repeats a run; COMETMQ_FUZZ_FRAMES makes it longer.
"""

import os
import random
import socket
import struct
import time

import pytest

from tests.fuzz.mutations import Mutations, recorded
from tests.support import processes
from tests.support.frames import json_frame, read_exactly
from tests.support.processes import Program, answers, wait_until
from tests.support.recording_proxy import head

FRAMES = int(os.environ.get("COMETMQ_FUZZ_FRAMES", "100000"))
SEED = int(os.environ.get("COMETMQ_FUZZ_SEED", "0")) or random.randrange(1, 2**31)
ROUND = 500  # frames before the connection is asked whether it still lives
UNKNOWN_CODE, NOT_SUPPORTED = 29_999, 3
ALIVE_OPAQUE = 1_999_999_999
ROUND_SECONDS_MAX = 30

pytestmark = pytest.mark.timeout(600 + FRAMES // 500)


@pytest.fixture
def broker(tmp_path, nameserver):
    with processes.broker(tmp_path / "broker", nameserver.address) as program:
        yield program


@pytest.mark.parametrize(("target", "share"), [("nameserver", 0.4), ("broker", 0.6)])
def test_broken_frames_cost_neither_connection_nor_process(request, target, share):
    program: Program = request.getfixturevalue(target)
    mutations = Mutations(recorded(target), SEED)
    count = int(FRAMES * share)
    print(f"{count} frames, seed {SEED}")
    answered = 0
    while count > 0:
        with socket.create_connection(
            ("127.0.0.1", program.port), timeout=ROUND_SECONDS_MAX
        ) as peer:
            received = bytearray()
            for _ in range(min(20, -(-count // ROUND))):
                frames = [mutations.frame() for _ in range(ROUND)]
                answered += one_round(peer, frames, received)
                count -= ROUND
    assert answered > 0
    assert program.process is not None
    assert program.process.poll() is None
    said = program.log.read_text()
    assert "Traceback" not in said, said[-3000:]


def one_round(peer: socket.socket, frames: list[bytes], received: bytearray) -> int:
    """Send broken frames and then a good one; wait for its answer, and count those before it.

    `received` keeps what came behind that answer: answers that took longer, perhaps half of one.
    """
    alive = json_frame(UNKNOWN_CODE, opaque=ALIVE_OPAQUE)
    peer.setblocking(False)
    to_send = memoryview(b"".join(frames) + alive)
    count = 0
    deadline = time.monotonic() + ROUND_SECONDS_MAX
    while time.monotonic() < deadline:
        if to_send:
            try:
                to_send = to_send[peer.send(to_send) :]
            except BlockingIOError:
                time.sleep(0.001)
        try:
            part = peer.recv(1 << 18)
        except BlockingIOError:
            if not to_send:
                time.sleep(0.001)
            continue
        assert part, f"the connection was closed; seed {SEED}"
        received += part
        while len(received) >= 4 and len(received) >= 4 + struct.unpack_from(">I", received)[0]:
            size = 4 + struct.unpack_from(">I", received)[0]
            frame = bytes(received[:size])
            del received[:size]
            _, code, opaque, _ = head(frame)
            assert b"Traceback" not in frame
            if opaque == ALIVE_OPAQUE and code == NOT_SUPPORTED:
                return count
            count += 1
    raise AssertionError(
        f"no answer within {ROUND_SECONDS_MAX} s; {len(to_send)} bytes unsent, {count} answers,"
        f" {len(received)} bytes of the next; seed {SEED}"
    )


@pytest.mark.parametrize("length", [17 * 1024 * 1024, 0x7FFFFFFF, 0xFFFFFFFF])
@pytest.mark.parametrize("target", ["nameserver", "broker"])
def test_an_oversized_frame_closes_its_connection_and_no_other(request, target, length):
    program: Program = request.getfixturevalue(target)
    with (
        socket.create_connection(("127.0.0.1", program.port), timeout=10) as other,
        socket.create_connection(("127.0.0.1", program.port), timeout=10) as peer,
    ):
        peer.sendall(struct.pack(">I", length) + b"x" * 100)
        with pytest.raises(ConnectionError):
            read_exactly(peer, 1 << 20)
        other.sendall(json_frame(UNKNOWN_CODE))
        assert read_exactly(other, 4)
    wait_until(lambda: answers(program.port), seconds=30, what="still listening")
