"""Well-formed requests of every code, plausible and absurd: each is answered, nobody else waits, and no memory is lost.

COMETMQ_FUZZ_SEED repeats a run; COMETMQ_FUZZ_FITTING makes it longer.
"""

import contextlib
import os
import random
import socket
import struct
import time
from collections.abc import Iterator

import pytest

from cometmq.model.codes import RequestCode
from tests.fuzz.fitting import BROKER, NAMESERVER, FittingRequests
from tests.support import processes
from tests.support.frames import ask, json_frame, parts_of
from tests.support.good_client import GoodClient, KeptWaiting
from tests.support.memory import MIB, MemoryWatch
from tests.support.processes import Program
from tests.support.recording_proxy import head

FRAMES = int(os.environ.get("COMETMQ_FUZZ_FITTING", "20000"))
SEED = int(os.environ.get("COMETMQ_FUZZ_SEED", "0")) or random.randrange(1, 2**31)
UNDER_WAY_MAX = 250  # requests without an answer
# A long run has one good client after another, each beside so many requests, and of so many one may be kept waiting
# by the machine: what a server does makes it late again and again.
SPAN_REQUESTS, SPANS_A_LATE_ONE = 20_000, 20
# Of a connection: who made up a heartbeat or a broker, and does not repeat it, is closed after two minutes.
CONNECTION_REQUESTS = 5_000
CONNECTION_SECONDS = 60
# Pulls and pops ask to wait half a second at most; a busy machine takes its time for the rest.
ANSWER_SECONDS_MAX = 55
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
    late: list[KeptWaiting] = []
    with MemoryWatch(program.pid) as memory:
        for begin in range(0, count, SPAN_REQUESTS):
            good = ask_beside_a_good_client(
                program, requests, min(SPAN_REQUESTS, count - begin), asks_routes=is_nameserver
            )
            try:
                # The machine is fully busy here, and what may take the loop's time is 20 ms a request at most.
                good.check(codes=(0, 17) if is_nameserver else (0,))
            except KeptWaiting as error:
                late.append(error)
    memory.check(growth_max=64 * MIB)
    assert program.process is not None
    assert program.process.poll() is None
    said = program.log.read_text()
    assert "Traceback" not in said, f"seed {SEED}: {said[-5000:]}"
    assert len(said) <= 100_000 + LOG_BYTES_A_FRAME * count
    if len(late) > count // (SPAN_REQUESTS * SPANS_A_LATE_ONE):
        raise KeptWaiting(f"seed {SEED}: {len(late)} good clients, such as {late[0]}")


def ask_beside_a_good_client(
    program: Program, requests: FittingRequests, left: int, *, asks_routes: bool
) -> GoodClient:
    """Send so many requests and wait for their answers; the client that was served meanwhile."""
    with GoodClient(program.address, program.pid, asks_routes=asks_routes) as good:
        while left:
            with socket.create_connection(("127.0.0.1", program.port), timeout=60) as peer:
                left -= ask_and_wait(peer, requests, min(left, CONNECTION_REQUESTS))
    return good


def ask_and_wait(peer: socket.socket, requests: FittingRequests, count: int) -> int:
    """Send requests, and read until each of them is answered; some wait half a second, so many are under way.

    The number of them: fewer than `count` where that takes long.
    """
    began = time.monotonic()
    waited_for: dict[int, tuple[float, bytes]] = {}
    to_send, received, sent = bytearray(), bytearray(), 0
    peer.setblocking(False)
    while waited_for or sent < count:
        if time.monotonic() - began > CONNECTION_SECONDS:
            count = sent
        for _ in range(min(UNDER_WAY_MAX - len(waited_for), count - sent)):
            sent += 1
            frame = requests.frame(sent)
            waited_for[sent] = time.monotonic(), frame
            to_send += frame
        if not waited_for:
            break
        oldest = next(iter(waited_for.values()))[0]
        assert time.monotonic() < oldest + ANSWER_SECONDS_MAX, unanswered(waited_for)
        with contextlib.suppress(BlockingIOError):
            if to_send:
                del to_send[: peer.send(to_send)]
        try:
            part = peer.recv(1 << 18)
        except BlockingIOError:
            time.sleep(0.001)
            continue
        assert part, f"the connection was closed; {unanswered(waited_for)}"
        received += part
        for frame in whole_frames(received):
            _, _, opaque, flag = head(frame)
            if not flag & 1:  # The broker asks the member that some heartbeat has made of us.
                to_send += json_frame(1, {}, b"{}", opaque=opaque, flag=1)
                continue
            _, request = waited_for.pop(opaque, (0.0, b"none of ours"))
            assert b"internal error" not in frame, f"seed {SEED}: {request!r:.3000}"
    return sent


def whole_frames(received: bytearray) -> Iterator[bytes]:
    """Take the whole frames away, one by one."""
    while len(received) >= 4 and len(received) >= 4 + struct.unpack_from(">I", received)[0]:
        size = 4 + struct.unpack_from(">I", received)[0]
        frame = bytes(received[:size])
        del received[:size]
        yield frame


def unanswered(waited_for: dict[int, tuple[float, bytes]]) -> str:
    """Which requests have no answer."""
    left = [parts_of(frame)[1][:300] for _, frame in [*waited_for.values()][:3]]
    return f"{len(waited_for)} requests have no answer, such as {left}; seed {SEED}"
