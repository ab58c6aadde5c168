"""A well-behaved client in a process of its own: one message each 10 ms, and how long each answer took.

Attack tests run it beside whatever a bad peer does to the same server. What a busy machine adds must not be taken
for the server's fault, so each wait is measured four ways: by the wall clock; by the processor time that
the server's loop took meanwhile (the main thread of its process, from /proc); by the wall clock less the time for
which the machine kept both sides from running (threads of the server or the client that could have run stood in the
queue for a processor, or the host gave the processor to others: the kernel counts both); and by an echo server in a
third process, asked at the same pace, which shows how long anybody waits on this machine now. Of these the echo alone
is not enough: who sleeps nearly always gets a processor at once, and a server that has work does not.

Where it may, the client runs before all others: what it sees late it would take for the server's fault.

    with GoodClient(broker.address, broker.pid) as good:
        attack()
    good.check()

One longest wait decides, and neither the kernel nor the echo knows all that a machine adds: where the host takes a
processor away without saying so, the server's loop seems to have worked meanwhile. So a wait that was too long is an
error of its own, `KeptWaiting`, and `rerun_waits` has such a test, and no other, run again: who was held up by the
server is held up each time.
"""

import contextlib
import json
import multiprocessing
import os
import select
import socket
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

import pytest

from cometmq.client.settings import environment_credentials
from tests.support import frames
from tests.support.auth_users import signed
from tests.support.forks import begin
from tests.support.frames import json_frame, parts_of, read_frame
from tests.support.load import send_frame

TOPIC = "GoodClient"
PAUSE_SECONDS = 0.01
WAIT_SECONDS_MAX = 120.0
GET_ROUTE = 105
# What a good client waits at most while somebody attacks, ms; on a busy machine of processor time of the server's.
WAIT_MS_MAX = 50.0
# How much longer than that it may take beside what the kernel says of the machine: so many waits of the echo server.
BUSY_FACTOR = 8.0


# How often a test of which a good client was kept waiting is run again.
RERUNS = 2


class KeptWaiting(AssertionError):
    """A good client waited longer than it may."""


def rerun_waits(items: list[pytest.Item], *, under: str) -> None:
    """Have tests beside the conftest `under` run again where a good client was kept waiting; who was each time, fails."""
    for item in items:
        if item.path.is_relative_to(Path(under).parent):
            item.add_marker(pytest.mark.flaky(reruns=RERUNS, only_rerun=[KeptWaiting.__name__]))


class Waits(NamedTuple):
    """What a good client saw.

    Attributes:
        answers: requests that were answered.
        longest_ms: the longest wait for an answer by the wall clock.
        longest_held_ms: the most processor time that the server's loop took during one wait.
        longest_own_ms: the longest wait less that for which server and client got no processor.
        echo_ms: the longest wait for the echo server meanwhile.
        codes: how often each code was answered, by its number as text.
        lost: why the connection ended early, None where it did not.
        refusal: the code and remark of the last answer with another code than 0, None where there was none.
    """

    answers: int
    longest_ms: float
    longest_held_ms: float
    longest_own_ms: float
    echo_ms: float
    codes: dict[str, int]
    lost: str | None
    refusal: str | None


class GoodClient:
    """The program, as seen from a test: entering the block starts it, leaving it ends it."""

    def __init__(
        self, address: str, pid: int, *, topic: str = TOPIC, asks_routes: bool = False
    ) -> None:
        """Begin nothing yet.

        `pid` is the server's; `asks_routes` makes it ask a nameserver for routes in place of sending to a broker.
        """
        self._command: list[str] = [
            sys.executable, "-m", "tests.support.good_client", address, str(pid), topic,
            "routes" if asks_routes else "sends",
        ]  # fmt: skip
        self.waits: Waits | None = None

    def __enter__(self) -> Self:
        ended, self._end = os.pipe()
        told, tells = os.pipe()
        self._said = os.fdopen(told)
        self._program = begin(
            self._command, stdin=ended, stdout=tells, stderr=2, env=dict(os.environ)
        )
        os.close(ended)
        os.close(tells)
        said = self._said.readline()
        assert said == "ready\n", f"the good client did not begin: {said!r}"
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._end)
        with self._said:
            try:
                self._program.wait(WAIT_SECONDS_MAX + 10)
            finally:
                self._program.kill()
                self._program.wait()
            self.waits = Waits(**json.loads(self._said.read()))

    def check(self, *, wait_ms: float = WAIT_MS_MAX, codes: tuple[int, ...] = (0,)) -> Waits:
        """Assert that nobody kept it waiting, every answer was one of `codes`, and it was never disconnected.

        Raises:
            KeptWaiting: it waited too long.
        """
        waits = self.waits
        assert waits is not None, "check() comes behind the with block"
        print(waits)
        assert waits.lost is None, waits
        assert waits.answers > 0, waits
        assert {int(code) for code in waits.codes} <= set(codes), waits
        own_ms_max = wait_ms + BUSY_FACTOR * waits.echo_ms
        if waits.longest_held_ms > wait_ms or waits.longest_own_ms > own_ms_max:
            raise KeptWaiting(
                f"{waits}: {wait_ms} ms of the loop, {own_ms_max} ms in all may be"
            )
        return waits


def loop_seconds(pid: int) -> float:
    """Processor time that the main thread of a process has taken until now."""
    with open(f"/proc/{pid}/schedstat") as file:  # noqa: PTH123  Each 10 ms.
        return int(file.read().split()[0]) / 1e9


def unrun_seconds(pid: int) -> float:
    """For how long threads of a process, of now, could have run and had no processor: it was given to others."""
    waited = 0
    for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  Each 10 ms.
        # A thread may end meanwhile.
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/schedstat") as file:  # noqa: PTH123
            waited += int(file.read().split()[1])
    return waited / 1e9


def stolen_seconds() -> float:
    """For how long the host of a virtual machine has given a processor of it to others, of all processors."""
    with open("/proc/stat") as file:  # noqa: PTH123  Each 10 ms.
        return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")


def late_seconds(pid: int) -> float:
    """For how long this machine has kept that process and this one from running."""
    return unrun_seconds(pid) + unrun_seconds(os.getpid()) + stolen_seconds()


def _run_before_others() -> None:
    with contextlib.suppress(OSError):  # Not everybody may.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def _echo(listening: socket.socket) -> None:
    peer, _ = listening.accept()
    while data := peer.recv(1 << 16):
        peer.sendall(data)


def _start_echo() -> socket.socket:
    listening = socket.create_server(("127.0.0.1", 0))
    echo = multiprocessing.get_context("fork").Process(target=_echo, args=(listening,))
    echo.daemon = True
    echo.start()
    beside = _connect(f"127.0.0.1:{listening.getsockname()[1]}")
    listening.close()
    return beside


def _connect(address: str) -> socket.socket:
    peer = frames.connect(address, seconds=WAIT_SECONDS_MAX)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return peer


def _request(what: str, topic: str, count: int) -> bytes:
    if what == "routes":
        return json_frame(GET_ROUTE, {"topic": topic}, opaque=count)
    return send_frame(topic, b"x" * 100, opaque=count, queue_id=count % 4)


def main() -> None:
    """Ask until standard input ends; then print what was seen."""
    address, pid, topic, what = sys.argv[1], int(sys.argv[2]), *sys.argv[3:]
    if credentials := environment_credentials():  # Its broker has access control.
        frames.sign = partial(signed, credentials)
    beside, peer = _start_echo(), _connect(address)
    _run_before_others()
    codes: Counter[str] = Counter()
    longest = held = own = echoed = 0.0
    count = 0
    lost: str | None = None
    refusal: str | None = None
    while True:
        frame = _request(what, topic, count)
        before, late, began = loop_seconds(pid), late_seconds(pid), time.monotonic()
        try:
            peer.sendall(frame)
            answer = json.loads(parts_of(read_frame(peer))[1])
        except OSError as error:
            lost = repr(error)
            break
        took = time.monotonic() - began
        if count:  # The first one makes the topic.
            longest = max(longest, took)
            held = max(held, loop_seconds(pid) - before)
            own = max(own, took - (late_seconds(pid) - late))
        count += 1
        codes[str(answer["code"])] += 1
        refusal = f"{answer['code']} {answer.get('remark')}" if answer["code"] else refusal
        began = time.monotonic()
        beside.sendall(frame)
        read_frame(beside)
        echoed = max(echoed, time.monotonic() - began)
        if count == 2:
            print("ready", flush=True)
        if select.select([sys.stdin], [], [], PAUSE_SECONDS)[0] and not os.read(0, 1):
            break
    longest, held, own, echoed = (1000 * each for each in (longest, held, own, echoed))
    waits = Waits(count, longest, held, own, echoed, dict(codes), lost, refusal)
    print(json.dumps(waits._asdict()), flush=True)


if __name__ == "__main__":
    main()
