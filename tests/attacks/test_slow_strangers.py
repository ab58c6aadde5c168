"""Who says nothing, says it slowly, or says much before he has signed, holds nothing for long."""

import contextlib
import socket
import struct
import time

import pytest

from cometmq import Credentials
from tests.attacks.listeners import LISTENERS, LISTENING
from tests.attacks.stranger import Stranger
from tests.support import processes
from tests.support.accounts import ADMIN, CANARY, account, guarded_cluster
from tests.support.auth_users import signed
from tests.support.frames import json_frame
from tests.support.good_client import GoodClient
from tests.support.memory import MIB, MemoryWatch

UPDATE_TOPIC, RUNTIME, REGISTER = 17, 28, 103
SYSTEM_ERROR, NO_PERMISSION = 1, 16


def closed_after(peer: socket.socket, *, seconds: float) -> float:
    """How long until the other side closes it, seconds."""
    began = time.monotonic()
    peer.settimeout(seconds)
    assert peer.recv(1) == b""
    return time.monotonic() - began


def trickle(peer: socket.socket, header: bytes, patient: socket.socket) -> float:
    """Send a header that never ends, and to another connection a body; how long until the first is closed."""
    began = time.monotonic()
    peer.settimeout(0)
    while (lasted := time.monotonic() - began) < 25:
        try:
            peer.sendall(header[:1])
            header = header[1:]
            if peer.recv(1) == b"":
                break
        except BlockingIOError:
            pass
        except ConnectionError:
            break
        if len(header) < 3:
            header = b" " * 50 + header
        patient.sendall(bytes(2_000))
        time.sleep(0.5)
    return lasted


@pytest.mark.timeout(90)
def test_who_says_nothing_or_no_header_is_closed(tmp_path, nameserver):
    """200 that say nothing for 15 s, some at each listener, and headers that trickle in for more than 10 s; with a whole header a body may take its time."""
    header = json_frame(RUNTIME)[8:]
    slow = struct.pack(">II", 4 + len(header), len(header))
    body = struct.pack(">II", 4 + len(header) + 100_000, len(header)) + header
    settings = {**LISTENING, "connectionsMax": 10_000}
    with (
        processes.broker(tmp_path, nameserver.address, settings=settings) as broker,
        GoodClient(broker.address, broker.pid) as good,
        contextlib.ExitStack() as left,
    ):

        def come(address: str) -> Stranger:
            return left.enter_context(Stranger(address))

        silent = [come(broker.address) for _ in range(200)]
        deaf = [come(each.address(broker)) for each in LISTENERS.values() for _ in range(5)]
        deaf.append(come(nameserver.address))
        trickling, patient = come(broker.address), come(broker.address)
        began = time.monotonic()
        trickling.socket.sendall(slow)
        patient.socket.sendall(body)
        lasted = trickle(trickling.socket, header, patient.socket)
        assert 9 < lasted < 17
        assert closed_after(silent[0].socket, seconds=20) < 20
        for peer in (*silent[1:], *deaf):
            assert closed_after(peer.socket, seconds=7) < 7
        assert time.monotonic() - began < 25
        patient.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            patient.socket.recv(1)  # It is still here.
    good.check()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    own = account(Credentials("ordinary-user", f"{CANARY}-ordinary"))
    with guarded_cluster(tmp_path_factory.mktemp("guarded"), own) as (names, broker):
        yield names, broker


@pytest.mark.parametrize("at", [0, 1], ids=["nameserver", "broker"])
def test_before_somebody_has_signed_no_large_frame_is_kept(guarded, at):
    program = guarded[at]
    large = bytes(8 << 20)
    with MemoryWatch(program.pid) as watch, contextlib.ExitStack() as left:
        peers = [left.enter_context(Stranger(program.address)) for _ in range(10)]
        for peer in peers:
            for fields in ({}, {"AccessKey": "nobody-who-is-known", "Signature": "x"}):
                refused = peer.ask(REGISTER, fields, large)
                assert refused.code == SYSTEM_ERROR
                assert "only accepted after a known user has signed" in refused.remark
            # The connection goes on, and what is small is answered as ever.
            assert peer.ask((REGISTER, RUNTIME)[at]).code == NO_PERMISSION
    watch.check(growth_max=16 * MIB)


@pytest.mark.parametrize("at", [0, 1], ids=["nameserver", "broker"])
def test_a_large_frame_of_a_user_is_taken_also_as_his_first(guarded, at):
    """A producer's first request may be a large message, and a broker's a large registration."""
    fields, body = {"topic": "Large", "queueId": "0"}, bytes(3 << 20)
    fields = signed(ADMIN, 30, fields, body)
    with Stranger(guarded[at].address) as peer:
        answer = peer.ask(30 if at else 105, fields, body)
        assert answer.code not in (SYSTEM_ERROR, NO_PERMISSION), answer
        assert "unreadable" not in answer.remark
