"""Administration is taken from this machine, by whatever of its addresses, and from no other one."""

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from tests.attacks.stranger import Stranger
from tests.support import processes
from tests.support.other_machine import OtherMachine

UPDATE_BROKER_CONFIG, BROKER_RUNTIME_INFO, WIPE_WRITE_PERM, NAMESERVER_CONFIG = 25, 28, 205, 319
NO_PERMISSION = 16


@contextmanager
def forwarder(address: str) -> Iterator[str]:
    """What haproxy, stunnel or `ssh -R` on a broker's machine do: connections of others come from there."""

    class Forward(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            host, _, port = address.rpartition(":")
            with socket.create_connection((host, int(port))) as onward:
                back = threading.Thread(target=copy, args=(onward, self.request), daemon=True)
                back.start()
                copy(self.request, onward)

    def copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(65_536):
                target.sendall(content)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Forward) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host, port = server.server_address[:2]
        yield f"{host!s}:{port}"
        server.shutdown()


@pytest.mark.parametrize("is_trusted", [True, False])
def test_behind_a_forwarder_everybody_was_the_own_machine(tmp_path, is_trusted):
    trust: dict[str, Any] = {} if is_trusted else {"ownMachineIsTrusted": "false"}
    expected = 0 if is_trusted else NO_PERMISSION
    names = processes.nameserver(tmp_path / "names", **trust)
    broker = processes.broker(tmp_path / "broker", "", settings=trust)
    for program, requests in (
        (names, (NAMESERVER_CONFIG,)),
        (broker, (BROKER_RUNTIME_INFO, UPDATE_BROKER_CONFIG, 26)),
    ):
        with program, forwarder(program.address) as outer:
            for request in requests:
                assert code(outer, request) == expected, request
                assert code(program.address, request) == expected, request
            assert code(outer, 105 if program is names else 34) != NO_PERMISSION


@pytest.fixture(scope="module")
def other():
    with OtherMachine() as machine:
        yield machine


def code(address: str, request: int, **fields: str) -> int:
    with Stranger(address) as peer:
        return peer.ask(request, fields).code


def test_with_brokerip1_alone_its_own_machine_administrates(tmp_path, other):
    settings = {"brokerIP1": other.here}
    program = processes.broker(tmp_path, "", settings=settings, host=other.here)
    with program:
        assert code(program.address, BROKER_RUNTIME_INFO) == 0
        assert other.call(lambda: code(program.address, BROKER_RUNTIME_INFO)) == NO_PERMISSION


@pytest.mark.parametrize("bind", ["0.0.0.0", "::"])
def test_a_broker_that_listens_everywhere_is_administrated_from_here(tmp_path, other, bind):
    with processes.broker(tmp_path, "", settings={"bindAddress": bind}) as program:
        outer = f"{other.here}:{program.port}"
        assert code(program.address, BROKER_RUNTIME_INFO) == 0
        assert code(outer, BROKER_RUNTIME_INFO) == 0
        assert other.call(lambda: code(outer, BROKER_RUNTIME_INFO)) == NO_PERMISSION


def test_a_nameserver_that_listens_everywhere_is_administrated_from_here(tmp_path, other):
    with processes.nameserver(tmp_path, bindAddress="::") as program:
        outer = f"{other.here}:{program.port}"
        for address in (program.address, outer):
            assert code(address, WIPE_WRITE_PERM, brokerName="b") == 0
            assert code(address, NAMESERVER_CONFIG) == 0
        assert other.call(lambda: code(outer, WIPE_WRITE_PERM, brokerName="b")) == NO_PERMISSION
        # Its settings are told to nobody else.
        assert other.call(lambda: code(outer, NAMESERVER_CONFIG)) == NO_PERMISSION
