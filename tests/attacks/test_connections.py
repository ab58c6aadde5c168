"""Many connections: all are served soon, none takes what the store or others need, and nobody is shut out."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from cometmq.model.codes import RequestCode, ResponseCode
from tests.attacks.crowd import ask_all, idle_connections
from tests.attacks.stranger import Stranger
from tests.support import processes
from tests.support.good_client import GoodClient
from tests.support.load import send_all, send_frame
from tests.support.processes import wait_until

TOPIC = "Crowd"


@contextlib.contextmanager
def soft_limit(count: int) -> Iterator[None]:
    """Programs that are started meanwhile begin with so few descriptors, and may raise that."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


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
    with soft_limit(300):
        started = processes.nameserver(tmp_path / "nameserver").start()
        beside = processes.broker(tmp_path / "broker", started.address).start()
    with started, beside:
        for program in (started, beside):
            soft, hard = resource.prlimit(program.pid, resource.RLIMIT_NOFILE)
            assert soft == hard


def test_connections_leave_descriptors_to_the_store(tmp_path, nameserver):
    """With 600 descriptors in all, 700 idle connections do not keep the broker from making queues."""
    program = with_descriptors(processes.broker(tmp_path / "broker", nameserver.address), 600)
    with (
        program as broker,
        GoodClient(broker.address, broker.pid) as good,
        idle_connections(broker.address, 700),
    ):
        assert descriptors(broker.pid) < 400
        wait_until(lambda: _is_answered(broker.address), seconds=10, what="room for one more")
        for number in range(5):
            assert send_all(broker.address, f"New{number}", [b"x"] * 8) == [0] * 8
    good.check()


def test_a_broker_without_a_free_descriptor_accepts_again_when_there_is_one(broker):
    """A failing accept is tried again, not in a loop that takes the processor."""
    soft, hard = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
    with GoodClient(broker.address, broker.pid) as good:
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (descriptors(broker.pid), hard))
        host, port = broker.address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), 20) as waits:
            waits.sendall(send_frame(TOPIC, b"x", opaque=1, queue_id=0))
            wait_until(
                lambda: "no connection can be accepted" in broker.log.read_text(),
                seconds=10,
                what="a line about it",
            )
            resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (soft, hard))
            assert waits.recv(100)
    # Nor has the store one for a queue's file meanwhile: it refuses, and says so (tests/attacks/test_lacks.py).
    good.check(codes=(0, ResponseCode.SERVICE_NOT_AVAILABLE))


def test_connections_that_are_reset_before_they_are_served_leave_nothing(broker):
    base = sockets(broker.pid)
    host, port = broker.address.rsplit(":", 1)
    with GoodClient(broker.address, broker.pid) as good:
        for _ in range(1500):
            with socket.create_connection((host, int(port))) as peer:
                at_once = struct.pack("ii", 1, 0)
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    good.check()
    wait_until(lambda: sockets(broker.pid) <= base, seconds=10, what="no connection kept")
    assert "Traceback" not in broker.log.read_text()


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.2"])
def test_connections_that_only_sit_there_shut_nobody_out(tmp_path, nameserver, source):
    """A full server closes who is silent longest in place of a newcomer, and writes few lines about it."""
    settings = {"connectionsMax": 300}
    with (
        processes.broker(tmp_path / "broker", nameserver.address, settings=settings) as broker,
        GoodClient(broker.address, broker.pid) as good,
        idle_connections(broker.address, 400, source=source) as idle,
    ):
        for _ in range(20):
            wait_until(lambda: _is_answered(broker.address), seconds=6, what="an answer")
        assert sum(map(_is_closed, idle)) >= 100
    good.check()
    lines = Path(broker.log).read_text().splitlines()
    assert len([line for line in lines if "connection" in line or "closing" in line]) < 60


def _is_answered(address: str) -> bool:
    with contextlib.suppress(ConnectionError), Stranger(address) as tool:
        return tool.ask(RequestCode.GET_BROKER_RUNTIME_INFO).code == 0
    return False


def _is_closed(peer: socket.socket) -> bool:
    peer.setblocking(False)
    try:
        return not peer.recv(1)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
