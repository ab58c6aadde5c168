"""Well-formed requests of every code, plausible and absurd: each is answered, nobody else waits, and no memory is lost.

COMETMQ_FUZZ_SEED repeats a run; COMETMQ_FUZZ_FITTING makes it longer.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import time

import pytest

from cometmq.model.codes import RequestCode
from tests.fuzz.fitting import BROKER, NAMESERVER, FittingRequests
from tests.support import processes
from tests.support.frames import ask, json_frame, parts_of
from tests.support.good_client import GoodClient
from tests.support.memory import MIB, MemoryWatch
from tests.support.processes import Program
from tests.support.recording_proxy import head

FRAMES = int(os.environ.get("COMETMQ_FUZZ_FITTING", "20000"))
SEED = int(os.environ.get("COMETMQ_FUZZ_SEED", "0")) or random.randrange(1, 2**31)
ROUND = 250  # requests under way at once
# Pulls and pops ask to wait half a second at most; a busy machine takes its time for the rest.
ROUND_SECONDS_MAX = 30
NOT_SUPPORTED = 3
LOG_BYTES_A_FRAME = 400
TABLES = {"broker": BROKER, "nameserver": NAMESERVER}

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture
def broker(tmp_path, nameserver):
    settings = {"recallMessageEnable": "true", "diskSpaceWarningLevelRatio": 99}
    with processes.broker(
        tmp_path / "broker", nameserver.address, settings=settings
    ) as program:
        yield program


@pytest.mark.parametrize("target", ["broker", "nameserver"])
def test_every_code_that_is_handled_is_among_those_that_are_tried(request, target):
    program: Program = request.getfixturevalue(target)
    codes = {int(code) for code in RequestCode}
    handled = {code for code in codes if ask(program.address, code)[0]["code"] != NOT_SUPPORTED}
    assert handled <= set(TABLES[target])


@pytest.mark.parametrize(("target", "share"), [("broker", 0.7), ("nameserver", 0.3)])
def test_requests_that_fit_their_codes_are_all_answered(request, target, share):
    program: Program = request.getfixturevalue(target)
    requests = FittingRequests(TABLES[target], SEED)
    count = int(FRAMES * share)
    print(f"{count} requests, seed {SEED}")
    is_nameserver = target == "nameserver"
    with (
        MemoryWatch(program.pid) as memory,
        GoodClient(program.address, program.pid, asks_routes=is_nameserver) as good,
        socket.create_connection(("127.0.0.1", program.port), timeout=60) as peer,
    ):
        for _ in range(-(-count // ROUND)):
            one_round(peer, requests)
    # The machine is fully busy here, and what may take the loop's time is 20 ms a request at most.
    good.check(codes=(0, 17) if is_nameserver else (0,))
    memory.check(growth_max=64 * MIB)
    assert program.process is not None
    assert program.process.poll() is None
    said = program.log.read_text()
    assert "Traceback" not in said, f"seed {SEED}: {said[-5000:]}"
    assert len(said) <= 100_000 + LOG_BYTES_A_FRAME * count


def one_round(peer: socket.socket, requests: FittingRequests) -> None:
    """Send a round of requests, and read until each of them is answered."""
    frames = {opaque: requests.frame(opaque) for opaque in range(1, ROUND + 1)}
    waited_for = set(frames)
    to_send = memoryview(b"".join(frames.values()))
    received = bytearray()
    deadline = time.monotonic() + ROUND_SECONDS_MAX
    peer.setblocking(False)
    while waited_for or to_send:
        assert time.monotonic() < deadline, unanswered(frames, waited_for)
        with contextlib.suppress(BlockingIOError):
            if to_send:
                to_send = to_send[peer.send(to_send) :]
        try:
            part = peer.recv(1 << 18)
        except BlockingIOError:
            time.sleep(0.001)
            continue
        assert part, f"the connection was closed; {unanswered(frames, waited_for)}"
        received += part
        while len(received) >= 4 and len(received) >= 4 + struct.unpack_from(">I", received)[0]:
            size = 4 + struct.unpack_from(">I", received)[0]
            frame = bytes(received[:size])
            del received[:size]
            _, _, opaque, flag = head(frame)
            if not flag & 1:  # The broker asks the member that some heartbeat has made of us.
                answer = json_frame(1, {}, b"{}", opaque=opaque, flag=1)
                to_send = memoryview(bytes(to_send) + answer)
                continue
            assert b"failed inside" not in frame, f"seed {SEED}: {frames.get(opaque)!r:.3000}"
            waited_for.discard(opaque)


def unanswered(frames: dict[int, bytes], waited_for: set[int]) -> str:
    """Which requests have no answer."""
    left = [parts_of(frames[opaque])[1][:300] for opaque in sorted(waited_for)[:3]]
    return f"{len(waited_for)} requests have no answer, such as {left}; seed {SEED}"
