"""Who may copy the log of a broker with access control: who proves it, and nobody whom a nameserver merely lists."""

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cometmq.codec.replication import REPORT
from cometmq.model.credentials import Credentials
from tests.attacks.stranger import Stranger
from tests.attacks.test_nameserver import ELSEWHERE, identity, register
from tests.attacks.test_starts import refused
from tests.support import certificates, processes
from tests.support.accounts import ADMIN, CANARY, NO_SLAVES, account, write_accounts
from tests.support.auth_users import ROOT, auth_settings
from tests.support.processes import Program
from tests.support.programs import run_program
from tests.support.request_fields import send_fields

SECRET = "a-secret-of-the-group"
GUARDS = {"acl": ADMIN, "auth": ROOT}  # And who may do everything.


def guarded(folder: Path, names: Program, guard: str, **more: object) -> Program:
    """A broker with access control at a nameserver without, which is not started yet."""
    settings: dict[str, Any] = auth_settings(**more)
    if guard == "acl":
        write_accounts(folder / "plain_acl.yml", account(ADMIN, admin=True))
        settings = {"aclEnable": "true", **more}
    return processes.broker(folder, names.address, settings=settings)


def secret_of(folder: Path) -> Path:
    secret = folder / "ha.secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    return secret


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("role", ["ASYNC_MASTER", "SYNC_MASTER"])
def test_a_start_without_a_proof_of_slaves_is_refused_with_the_line_to_write(
    tmp_path, nameserver, guard, role
):
    program = guarded(tmp_path, nameserver, guard, brokerRole=role)
    done = run_program(*program.command, status=None)
    assert done.returncode != 0
    for line in ("haSecretFile=", "haAllowedAddresses=", "tls.server.need.client.auth=require"):
        assert line in done.stderr + done.stdout
    assert not (tmp_path / "store" / "commitlog").exists()


def test_without_a_nameserver_or_as_a_slave_a_start_needs_no_proof(tmp_path):
    with processes.broker(tmp_path, "", settings=auth_settings()) as program:
        assert not processes.answers(program.port + 1), "nobody could copy anything"


def test_a_certificate_that_clients_must_show_is_a_proof_and_one_that_they_may_show_is_none(
    tmp_path, nameserver
):
    cert, key = certificates.signed(certificates.authority(tmp_path), "server")
    ca = tmp_path / "ca.pem"
    tls: dict[str, object] = {
        "tls.server.certPath": cert,
        "tls.server.keyPath": key,
        "tls.server.trustCertPath": ca,
        "tls.server.need.client.auth": "require",
    }
    plain_too = guarded(
        tmp_path / "plain-too", nameserver, "auth", **tls, **{"tls.server.mode": "permissive"}
    )
    assert "haSecretFile=" in refused(plain_too, status=2)
    settings = {**tls, "tls.server.mode": "enforcing", "brokerName": "certified"}
    known, unknown = (ssl.create_default_context(cafile=str(ca)) for _ in range(2))
    known.load_cert_chain(cert, key)
    known.check_hostname = unknown.check_hostname = False
    with guarded(tmp_path / "certified", nameserver, "auth", **settings) as broker:
        body = f"{CANARY} payment".encode()
        with Stranger(broker.address) as sender:
            sender.socket = known.wrap_socket(sender.socket)
            assert sender.ask_as(ROOT, 310, SEND, body).code == 0
        with registered_as_slave(broker, nameserver, "certified"):
            for context in (None, unknown, known):
                assert bool(greeting(broker, context)) == (context is known)


def greeting(broker: Program, context: ssl.SSLContext | None) -> bytes:
    """The first bytes that the HA port gives to the address of a registered slave, with TLS or in the clear."""
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", broker.port + 1), 30, (ELSEWHERE, 0)) as raw,
        contextlib.nullcontext(raw) if context is None else context.wrap_socket(raw) as peer,
    ):
        return said_to(peer, REPORT.pack(0) * 2, seconds=30, wanted=b"CMHA")
    return b""


SEND = send_fields("orders", a="payers")


@contextlib.contextmanager
def registered_as_slave(broker: Program, names: Program, name: str) -> Iterator[None]:
    """Register another address at a nameserver as a slave of the broker's group, which holds until the connection ends."""
    with Stranger(names.address, source=ELSEWHERE) as stranger:
        mine = identity(broker, brokerName=name, brokerAddr=f"{ELSEWHERE}:10911", brokerId="1")
        assert register(stranger, mine).code == 0
        yield


def copied_by_a_registered_stranger(
    broker: Program, names: Program, name: str, who: Credentials
) -> bytes:
    """What the HA port gives to an address that has registered as a slave of the broker's group."""
    body = f"{CANARY} payment".encode()
    with Stranger(broker.address) as sender:
        assert sender.ask_as(who, 310, SEND, body).code == 0
    got = b""
    with registered_as_slave(broker, names, name):
        for words in (REPORT.pack(0), REPORT.pack(0) * 2):
            with socket.create_connection(
                ("127.0.0.1", broker.port + 1), 10, (ELSEWHERE, 0)
            ) as peer:
                got += said_to(peer, words)
    return got


def said_to(
    peer: socket.socket, words: bytes, *, seconds: float = 3, wanted: bytes = CANARY.encode()
) -> bytes:
    """What comes until `wanted` is in it, or nothing comes: 3 s are what a master waits for the second word of a slave, and some more."""
    got = b""
    peer.settimeout(seconds)
    try:
        peer.sendall(words)
        while wanted not in got and (part := peer.recv(1 << 16)):
            got += part
    except (TimeoutError, ConnectionError):
        pass
    return got


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("proof", ["address", "secret"])
def test_a_stranger_that_registers_as_a_slave_copies_nothing(
    tmp_path, nameserver, guard, proof
):
    more = NO_SLAVES if proof == "address" else {"haSecretFile": secret_of(tmp_path)}
    name = f"broker-{guard}-{proof}"
    with guarded(tmp_path, nameserver, guard, brokerName=name, **more) as broker:
        got = copied_by_a_registered_stranger(broker, nameserver, name, GUARDS[guard])
    assert CANARY.encode() not in got
    assert proof != "address" or got == b""
