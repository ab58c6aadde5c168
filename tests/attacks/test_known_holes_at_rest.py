"""More of the list of holes (see test_known_holes.py): settings that open a server, secrets where they lie, and other doors.

S3 secrets in files, names and arguments, S5 rights without login (#11178), S9 a large frame by who guesses a name, S16 the pages of a
broker and the dashboard; and the connections of one address.
"""

import contextlib
import os
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from cometmq import Credentials, Message, Producer, ProducerSettings
from cometmq.access.login_failures import FAILURES_MAX
from cometmq.model.codes import ResponseCode
from tests.attacks.stranger import Stranger
from tests.dashboard.web import Served
from tests.support import processes
from tests.support.accounts import ADMIN, CANARY, account, guarded_cluster
from tests.support.auth_users import signed
from tests.support.command_line import COMETMQ
from tests.support.forks import anew
from tests.support.frames import json_frame, parts_of, read_frame
from tests.support.good_client import GoodClient
from tests.support.memory import MIB, MemoryWatch
from tests.support.other_machine import OtherMachine
from tests.support.processes import free_port, wait_until
from tests.support.programs import run_program

ORDINARY = Credentials("ordinary-user", f"{CANARY}-ordinary")
# Where secrets are kept on purpose: for their owner's eyes.
KEPT_IN = {"plain_acl.yml", "broker.conf"}
RUNTIME, BROKER_LIST = 28, 106


def arguments_of(*pids: int) -> bytes:
    """What everybody on this machine may read of some programs and their children."""
    found = []
    for pid in pids:
        for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
            with contextlib.suppress(OSError):  # It has ended.
                found.append(Path(f"/proc/{process.pid}/cmdline").read_bytes())
    return b"\n".join(found)


def ask_of_secrets(address: str) -> None:
    """Requests of several users, right and wrong, and an account that is made."""
    wrong = Credentials("ordinary-user", f"{CANARY}-wrong")
    with Stranger(address) as stranger:
        for who in (ORDINARY, wrong, ADMIN):
            for code in (25, 26, RUNTIME, 54):
                assert CANARY not in stranger.ask_as(who, code, body=b"noSuchKey=1\n").remark
        changed = {"accessKey": "another-user", "secretKey": f"{CANARY}-another"}
        made = stranger.ask_as(ADMIN, 50, changed)
        assert made.code == ResponseCode.SUCCESS


def run_a_command(nameserver: str, *beside: int) -> None:
    """`cometmq` with credentials; neither its words nor anybody's arguments hold them."""
    keys = {"COMETMQ_ACCESS_KEY": ADMIN.access_key, "COMETMQ_SECRET_KEY": ADMIN.secret_key}
    with subprocess.Popen(
        [*COMETMQ, "topic", "list"],
        env={**os.environ, "NAMESRV_ADDR": nameserver, **keys},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as command:
        arguments = arguments_of(*beside, command.pid)
        assert command.stdout is not None
        said = command.stdout.read()
    assert command.returncode == 0, said
    assert b"cometmq" in arguments
    assert CANARY.encode() not in said + arguments


def test_s3_a_canary_is_in_no_file_name_log_or_argument(tmp_path):
    """Signed sends, commands, wrong and unsigned requests, a changed account, a restart: then every file is looked at."""
    own = account(ORDINARY, topicPerms=["mine=PUB|SUB"], groupPerms=["mine=SUB"])
    with anew(), guarded_cluster(tmp_path, own) as (names, broker):
        signing = ProducerSettings(credentials=ORDINARY)
        with Producer(names.address, group="mine", settings=signing) as producer:
            producer.send_many([Message("mine", b"x") for _ in range(10)])
        ask_of_secrets(broker.address)
        run_a_command(names.address, names.pid, broker.pid)
        broker.kill()
        broker.start()
    looked_at = 0
    for path in tmp_path.rglob("*"):
        assert CANARY not in str(path)
        if not path.is_file():
            continue
        looked_at += 1
        if CANARY.encode() in path.read_bytes():
            assert path.name in KEPT_IN, path
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert looked_at > 10


@pytest.mark.parametrize("what", ["broker", "nameserver"])
def test_s5_rights_without_login_are_refused_at_the_start(tmp_path, what):
    """Where nobody shows who he is, a right that is asked for by name is anybody's."""
    conf = processes.write_conf(
        tmp_path / "own.conf", {"authorizationEnabled": "true", "storePathRootDir": tmp_path / "store", "listenPort": free_port()}
    )  # fmt: skip
    started = run_program(sys.executable, "-m", f"cometmq.{what}", "-c", conf, status=None)
    assert started.returncode != 0
    assert (
        "authorizationEnabled=true needs authenticationEnabled=true"
        in started.stdout + started.stderr
    )


def test_s9_who_guesses_a_name_and_not_its_secret_sends_no_large_frames_for_long(tmp_path):
    """A large frame is read where its header names a known user, for its signature is of all of it; five wrong ones end that."""
    with (
        OtherMachine() as other,
        guarded_cluster(tmp_path, both={"bindAddress": "0.0.0.0"}) as (names, _),
    ):
        wrong, body = Credentials(ADMIN.access_key, "not-the-secret"), bytes(100_000)
        frame = json_frame(BROKER_LIST, signed(wrong, BROKER_LIST, body=body), body)

        def remark(begin: bytes) -> str:
            with other.call(
                lambda: socket.create_connection((other.here, names.port), 30)
            ) as peer:
                peer.sendall(begin)
                return parts_of(read_frame(peer))[1].decode()

        remarks = [remark(frame) for _ in range(FAILURES_MAX)]
        # Its header is enough to be refused now: the rest is not waited for.
        last = remark(frame[:4_000])
    assert all("not that of a known user" in each for each in remarks), remarks
    assert "a frame of more than 65536 bytes" in last


def test_s16_the_pages_of_a_broker_read_no_body(tmp_path, nameserver):
    port = free_port()
    settings = {"metricsPromExporterPort": port}
    with processes.broker(tmp_path, nameserver.address, settings=settings) as broker:
        with GoodClient(broker.address, broker.pid) as good, MemoryWatch(broker.pid) as watch:
            no_body_is_read(port, b"/metrics")
        watch.check(growth_max=16 * MIB)
        good.check()


def test_s16_the_dashboard_reads_no_large_body(tmp_path, nameserver):
    with (
        Served(tmp_path, nameserver.address) as served,
        MemoryWatch(served.program.pid) as watch,
    ):
        no_body_is_read(served.port, b"/login")
        said = asked(
            served.port,
            b"POST /login HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 2147483648\r\n\r\n"
            % served.port,
        )
        assert re.match(rb"HTTP/1\.1 4\d\d ", said), said[:200]
        assert b"Traceback" not in served.program.log.read_bytes()
    watch.check(growth_max=32 * MIB)


def no_body_is_read(port: int, path: bytes) -> None:
    """Bodies that are announced huge, that do not end, that begin a second protocol: none is answered as if it were well."""
    host = b" HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % port
    head = b"POST " + path + host
    chunk = b"40000\r\n" + bytes(0x40000) + b"\r\n"
    for request in (
        head + b"Content-Length: 2147483648\r\n\r\n" + bytes(8 * MIB),
        head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 32,
        head + b"Content-Length: -1\r\n\r\n" + bytes(MIB),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + (b"\x00\x00\x04\x03\x00" + bytes(8)) * 3_000,
    ):
        for _ in range(3):
            assert not asked(port, request).startswith(b"HTTP/1.1 2")
    assert (
        asked(port, b"GET " + path + host + b"Connection: close\r\n\r\n")[:12]
        == b"HTTP/1.1 200"
    )


def asked(port: int, request: bytes) -> bytes:
    """The begin of what a request is answered; nothing where the connection is closed instead."""
    with (
        contextlib.suppress(ConnectionError),
        socket.create_connection(("127.0.0.1", port), 60) as peer,
    ):
        with contextlib.suppress(
            ConnectionError
        ):  # It need not read all of it; what it says is there all the same.
            peer.sendall(request)
        return peer.recv(4096)
    return b""


def test_two_hundred_connections_of_an_address_are_all_that_it_has(tmp_path):
    """Of 260 from another machine 200 are served and the others closed, and this machine is served meanwhile."""
    with (
        OtherMachine() as other,
        processes.nameserver(tmp_path, bindAddress="0.0.0.0") as names,
    ):
        question = json_frame(BROKER_LIST)

        def many() -> list[socket.socket]:
            return [socket.create_connection((other.here, names.port), 30) for _ in range(260)]

        with contextlib.ExitStack() as left:
            peers = [left.enter_context(peer) for peer in other.call(many)]
            served = [is_served(peer, question) for peer in peers]
            assert sum(served) == 200
            with Stranger(names.address) as near:
                assert near.ask(BROKER_LIST).code == ResponseCode.SUCCESS
            peers[served.index(True)].close()

            def one_more() -> bool:
                with other.call(
                    lambda: socket.create_connection((other.here, names.port), 30)
                ) as peer:
                    return is_served(peer, question)

            wait_until(one_more, seconds=30, what="a place for one more")
        said = [
            line
            for line in names.log.read_text().splitlines()
            if "already has 200 open connections" in line
        ]
        assert 0 < len(said) < 20


def is_served(peer: socket.socket, question: bytes) -> bool:
    try:
        peer.sendall(question)
        return bool(peer.recv(1))
    except ConnectionError:
        return False
