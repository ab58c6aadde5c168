"""Many connections: all are served soon, none takes what the store or others need, and nobody is shut out.

What is for a connection as such is tried at each listener of a broker: remoting, pages and replication.
"""

import contextlib
import resource
import socket
import struct
import time
from functools import partial
from pathlib import Path

import psutil
import pytest

from cometmq.model.codes import ResponseCode
from tests.attacks.crowd import ask_all, idle_connections
from tests.attacks.listeners import LISTENERS, LISTENING, Listener
from tests.support import certificates, processes
from tests.support.frames import connect
from tests.support.good_client import GoodClient
from tests.support.load import send_all, send_frame
from tests.support.processes import wait_until
from tests.support.programs import descriptor_limit, halted

TOPIC = "Crowd"


@pytest.fixture(scope="module", params=["cleartext", "TLS"])
def listening(request, tmp_path_factory, nameserver, access):
    """A broker with all listeners; "TLS" also takes cleartext, and looks at the first byte of each connection."""
    folder = tmp_path_factory.mktemp("listening")
    settings = dict[str, object](LISTENING)
    if request.param == "TLS":
        pair = certificates.signed(certificates.authority(folder), "server")
        settings |= zip(("tls.server.certPath", "tls.server.keyPath"), pair, strict=True)
        settings["tls.server.mode"] = "permissive"
    program = processes.broker(folder / "broker", nameserver.address, settings=settings)
    with program:
        yield program


@pytest.fixture(params=LISTENERS)
def listener(request) -> Listener:
    return LISTENERS[request.param]


def with_descriptors(program: processes.Program, count: int) -> processes.Program:
    """The program with so many descriptors and never more."""
    program.command = ["bash", "-c", f'ulimit -n {count}; exec "$@"', "-", *program.command]
    return program


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def sockets(pid: int) -> int:
    count = 0
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            count += str(one.readlink()).startswith("socket:")
    return count


def test_all_who_come_at_once_are_served_before_the_first_are_served_again_and_again(broker):
    """Of 256 clients that send at once none waits while the others have many turns."""
    send_all(broker.address, TOPIC, [b"first"])
    question = b"".join(
        send_frame(TOPIC, b"x" * 400, opaque=number, queue_id=number % 4)
        for number in range(16)
    )
    members = ask_all(broker.address, 256, question, asked_at_once=16, seconds=20)
    assert all(member.answers for member in members), "somebody never had an answer"
    turns = sum(member.answers for member in members) / 16 / 256
    print(f"{turns:.1f} turns each until the last had its first")
    assert turns <= 4


def test_two_thousand_that_come_back_after_a_restart_are_all_answered(tmp_path, nameserver):
    with processes.broker(tmp_path / "broker", nameserver.address) as broker:
        send_all(broker.address, TOPIC, [b"first"])
        broker.kill()
        broker.start()
        question = send_frame(TOPIC, b"again", opaque=1, queue_id=0)
        members = ask_all(broker.address, 2000, question, asked_at_once=1, seconds=40)
    assert all(member.answers for member in members), "somebody never had an answer"
    turns = sum(member.answers for member in members) / len(members)
    print(f"{turns:.1f} turns each until the last had its first")
    assert turns <= 8


def test_the_soft_limit_of_descriptors_is_raised(tmp_path):
    with descriptor_limit(300):
        started = processes.nameserver(tmp_path / "nameserver").start()
        beside = processes.broker(tmp_path / "broker", started.address).start()
    with started, beside:
        for program in (started, beside):
            soft, hard = resource.prlimit(program.pid, resource.RLIMIT_NOFILE)
            assert soft == hard


def test_connections_leave_descriptors_to_the_store(tmp_path, nameserver):
    """With 600 descriptors in all, 700 idle connections at each listener do not keep the broker from making queues."""
    folder = tmp_path / "broker"
    made = processes.broker(
        folder, nameserver.address, settings={**LISTENING, "connectionsMax": 10_000}
    )
    with (
        with_descriptors(made, 600) as broker,
        GoodClient(broker.address, broker.pid) as good,
        contextlib.ExitStack() as idle,
    ):
        for each in LISTENERS.values():
            idle.enter_context(idle_connections(each.address(broker), 700))
        wait_until(lambda: descriptors(broker.pid) < 400, seconds=5, what="a bound")
        for each in LISTENERS.values():
            wait_until(partial(each.is_served, broker), seconds=10, what="room for one more")
        for number in range(5):
            assert send_all(broker.address, f"New{number}", [b"x"] * 8) == [0] * 8
    good.check()


def test_connections_that_wait_while_the_broker_stands_still_leave_descriptors_too(
    tmp_path, nameserver
):
    """All at once they are accepted in few turns of the loop, in which none that is closed gives its descriptor back."""
    settings = {**LISTENING, "connectionsMax": 10_000, "waitTimeMillsInSendQueue": 60_000}
    made = processes.broker(tmp_path / "broker", nameserver.address, settings=settings)
    with (
        with_descriptors(made, 600) as broker,
        contextlib.ExitStack() as idle,
        connect(broker.address, seconds=20) as sender,
    ):
        sender.sendall(send_frame(TOPIC, b"x", opaque=1, queue_id=0))
        assert sender.recv(1000)
        addresses = [each.address(broker) for each in LISTENERS.values()]
        with halted(broker):
            for address in addresses:
                idle.enter_context(idle_connections(address, 700))
            for number in range(100):
                sender.sendall(send_frame(f"New{number}", b"x", opaque=number, queue_id=0))
        answers = b""
        while answers.count(b'"code":') < 100:
            answers += sender.recv(1 << 16)
        assert answers.count(b'"code":0') == 100, answers[-300:]


def test_without_a_descriptor_accepting_rests_and_is_back_within_a_second(listening, listener):
    """A failing accept is tried again, not in a loop that takes the processor."""
    soft, hard = resource.prlimit(listening.pid, resource.RLIMIT_NOFILE)
    process, before = psutil.Process(listening.pid), len(listening.log.read_text())
    with GoodClient(listening.address, listening.pid) as good:
        few = (descriptors(listening.pid), hard)
        resource.prlimit(listening.pid, resource.RLIMIT_NOFILE, few)
        with socket.create_connection(("127.0.0.1", listener.port(listening)), 20) as waits:
            waits.sendall(listener.hello())
            wait_until(
                lambda: "cannot accept connections" in listening.log.read_text()[before:],
                seconds=10,
                what="a line about it",
            )
            used = sum(process.cpu_times()[:2])
            time.sleep(2)
            assert sum(process.cpu_times()[:2]) - used < 0.5, "it spins"
            resource.prlimit(listening.pid, resource.RLIMIT_NOFILE, (soft, hard))
            began = time.monotonic()
            assert waits.recv(100)
            assert time.monotonic() - began < 1
    # Nor has the store one for a queue's file meanwhile: it refuses, and says so (tests/attacks/test_lacks.py).
    good.check(codes=(0, ResponseCode.SERVICE_NOT_AVAILABLE))


def test_connections_that_are_reset_before_they_are_served_leave_nothing(listening, listener):
    base, before = sockets(listening.pid), len(listening.log.read_text())
    with GoodClient(listening.address, listening.pid) as good:
        for _ in range(1500):
            with socket.create_connection(("127.0.0.1", listener.port(listening))) as peer:
                at_once = struct.pack("ii", 1, 0)
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    good.check()
    wait_until(lambda: sockets(listening.pid) <= base, seconds=10, what="no connection kept")
    assert "Traceback" not in listening.log.read_text()[before:]


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.2"])
def test_connections_that_only_sit_there_shut_nobody_out(listening, listener, source):
    """A full listener closes who is silent longest in place of a newcomer, holds no more than it may, and writes few lines about it."""
    address = listener.address(listening)
    base, before = sockets(listening.pid), len(listening.log.read_text())
    with (
        GoodClient(listening.address, listening.pid) as good,
        idle_connections(address, 400, source=source) as idle,
    ):
        for _ in range(20):
            wait_until(lambda: listener.is_served(listening), seconds=6, what="an answer")
        with idle_connections(address, 100, source=source):
            most = base + listener.most + 10
            wait_until(lambda: sockets(listening.pid) <= most, seconds=5, what="a bound")
        assert sum(map(_is_closed, idle)) >= 400 - listener.most
    good.check()
    wait_until(lambda: sockets(listening.pid) <= base, seconds=10, what="no connection kept")
    lines = listening.log.read_text()[before:].splitlines()
    assert len([line for line in lines if "connection" in line or "closing" in line]) < 60


def _is_closed(peer: socket.socket) -> bool:
    peer.setblocking(False)
    try:
        return not peer.recv(1)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
