"""A slave and its master over TLS: the log is copied, nothing of it can be read on the way, and nobody gets it plain."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cometmq.codec.replication import REPORT
from tests.support import certificates, processes
from tests.support.accounts import NO_SLAVES
from tests.support.load import send_all
from tests.support.members import log_of
from tests.support.processes import Program, wait_until

CANARY = b"canary-body-17" * 20


@pytest.fixture(scope="module")
def ca(tmp_path_factory):
    return certificates.authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def master(tmp_path, ca) -> Iterator[Program]:
    """Plain and TLS, so that senders of a test need no certificate; its HA port takes both, too."""
    settings = {**certificates.server_keys(ca), "tls.server.mode": "permissive", **NO_SLAVES}
    with processes.broker(tmp_path / "master", "", settings=settings) as program:
        send_all(
            program.address, "Guarded", [CANARY] * 20_000
        )  # More than is received in one piece.
        yield program


@contextmanager
def slave(folder, master_address: str, trusted) -> Iterator[Program]:
    settings = {
        "brokerRole": "SLAVE",
        "brokerId": 1,
        "haMasterAddress": master_address,
        "tls.enable": "true",
        "tls.client.trustCertPath": trusted,
    }
    with processes.broker(folder / "slave", "", settings=settings) as program:
        yield program


@contextmanager
def recorded(port: int) -> Iterator[tuple[str, bytearray]]:
    """An address in front of a port, and all that goes through it."""
    seen = bytearray()

    def copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                seen.extend(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", port))
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=copy, args=ends, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}", seen


def test_the_log_is_copied_and_cannot_be_read_on_its_way(tmp_path, ca, master):
    with recorded(master.port + 1) as (address, seen), slave(tmp_path, address, ca):
        whole = log_of(tmp_path / "master")
        wait_until(
            lambda: log_of(tmp_path / "slave") == whole, seconds=20, what="the log at the slave"
        )
        send_all(master.address, "Guarded", [CANARY] * 10)
        whole = log_of(tmp_path / "master")
        wait_until(lambda: log_of(tmp_path / "slave") == whole, seconds=20, what="the rest")
    assert len(seen) > len(whole)
    assert CANARY not in seen
    assert b"Guarded" not in seen


def test_a_slave_tells_nothing_to_a_master_that_it_does_not_trust(tmp_path, ca, master):
    other = certificates.authority(tmp_path, "other")
    with slave(tmp_path, f"127.0.0.1:{master.port + 1}", other) as program:
        wait_until(lambda: "certificate" in program.log.read_text(), seconds=20, what="a line")
        assert log_of(tmp_path / "slave") == b""
        wait_until(
            lambda: "HA port refused" in master.log.read_text(), seconds=20, what="the other's"
        )
    assert "Traceback" not in master.log.read_text()


def test_where_tls_is_wanted_a_plain_slave_gets_no_byte(tmp_path, ca):
    settings = {**certificates.server_keys(ca, "strict"), **NO_SLAVES}
    with processes.broker(tmp_path / "master", "", settings=settings) as master:
        with socket.create_connection(("127.0.0.1", master.port + 1), timeout=10) as peer:
            peer.sendall(REPORT.pack(0))
            with contextlib.suppress(ConnectionError):
                assert peer.recv(1) == b""
        wait_until(
            lambda: "it does not use TLS" in master.log.read_text(), seconds=10, what="a line"
        )
