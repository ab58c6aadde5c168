"""TLS of programs from the command line: what is plain is refused, what is not trusted is not spoken to, nothing can be read."""

import contextlib
import socket
import ssl
import struct
import threading
import time
from pathlib import Path

import pytest

from cometmq import (
    Admin,
    ClientSettings,
    Message,
    Producer,
    ProducerSettings,
    PullConsumer,
    PullConsumerSettings,
    TlsSettings,
)
from cometmq.model.errors import CometError
from tests.support import certificates, frames, processes
from tests.support.frames import connect, json_frame, read_frame
from tests.support.processes import wait_until
from tests.support.programs import small_cluster
from tests.support.request_fields import send_fields

CANARY = b"canary-body-51c2" * 8


@pytest.fixture(scope="module")
def ca(tmp_path_factory):
    return certificates.authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def cluster(ca, tmp_path_factory):
    """Both with a certificate, and the broker towards the nameserver."""
    folder = tmp_path_factory.mktemp("encrypted")
    keys = certificates.server_keys(ca)
    towards = {"tls.enable": "true", "tls.client.trustCertPath": ca}
    with small_cluster(folder, keys, **keys, **towards) as programs:
        yield programs


def trusting(ca, **more):
    return TlsSettings(ca_file=str(ca), **more)


def ask(address, context, *, host="127.0.0.1", code=106):
    """One request over TLS, in raw frames."""
    with (
        connect(address, seconds=10) as plain,
        context.wrap_socket(plain, server_hostname=host) as peer,
    ):
        peer.sendall(json_frame(code))
        return read_frame(peer), peer.getpeercert(binary_form=True)


def client_context(ca, cert=None):
    context = ssl.create_default_context(cafile=str(ca))
    if cert is not None:
        context.load_cert_chain(*cert)
    return context


def test_our_clients_send_and_consume_over_tls(cluster, ca):
    names, _ = cluster
    tls = trusting(ca)
    with Admin(names.address, settings=ClientSettings(tls=tls)) as admin:
        admin.topics.create("orders", queues=1)
    with Producer(names.address, group="g", settings=ProducerSettings(tls=tls)) as producer:
        bodies = [b"%d" % number * 1000 for number in range(200)]
        sent = [producer.send(Message("orders", body)) for body in bodies]
    with PullConsumer(
        names.address, group="r", settings=PullConsumerSettings(tls=tls)
    ) as consumer:
        read: list[bytes] = []
        offset = 0
        while len(read) < 200:
            messages = consumer.fetch(sent[0].queue, offset).messages
            read += [message.body for message in messages]
            offset = messages[-1].queue_offset + 1
    assert read == bodies


def test_what_is_plain_is_refused(cluster):
    """100 of 100, at both; not one is answered."""
    for program in cluster:
        for _ in range(50):
            with socket.create_connection((program.host, program.port), timeout=10) as plain:
                plain.sendall(json_frame(106))
                with contextlib.suppress(ConnectionResetError):
                    assert plain.recv(1) == b""


def test_nothing_on_the_wire_can_be_read(cluster, ca):
    """Nor written past TLS: each record has its head, in both directions."""
    _, broker = cluster
    seen = {True: b"", False: b""}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=relay, args=(listener, broker.port, seen))
        thread.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with (
            connect(address, seconds=10) as plain,
            client_context(ca).wrap_socket(plain, server_hostname="127.0.0.1") as peer,
        ):
            fields = send_fields("TBW102", a="g")
            for opaque in range(100):
                peer.sendall(json_frame(310, fields, CANARY, opaque=opaque))
                read_frame(peer)
        thread.join(20)
    for data in seen.values():
        assert len(data) > 5_000
        assert b"extFields" not in data
        assert b"opaque" not in data
        assert CANARY not in data
        records(data)


def records(data):
    """Walk through the records of TLS; whatever is none would fail here."""
    at = 0
    while at < len(data):
        kind, _, size = struct.unpack_from(">BHH", data, at)
        assert kind in {20, 21, 22, 23}
        at += 5 + size
    assert at == len(data)


def relay(listener, port, seen):
    near, _ = listener.accept()
    with near, socket.create_connection(("127.0.0.1", port)) as far:

        def copy(source, target, is_up):
            with contextlib.suppress(OSError):
                while data := source.recv(65_536):
                    seen[is_up] += data
                    target.sendall(data)
                target.shutdown(socket.SHUT_WR)

        back = threading.Thread(target=copy, args=(far, near, False))
        back.start()
        copy(near, far, True)
        back.join(20)


def test_who_is_not_trusted_is_not_spoken_to(cluster, ca, tmp_path):
    names, _ = cluster
    other = certificates.authority(tmp_path, "other")
    for tls in (trusting(other), TlsSettings()):
        with (
            pytest.raises(
                CometError,
                match=r"the TLS handshake with .*(self.signed|unable to get local issuer)",
            ),
            Admin(names.address, settings=ClientSettings(tls=tls)) as admin,
        ):
            admin.brokers.cluster()
    unchecked = TlsSettings(check_server=False)
    with Admin(names.address, settings=ClientSettings(tls=unchecked)) as admin:
        assert admin.brokers.cluster().brokers


def test_a_certificate_of_another_host_is_refused(ca, tmp_path):
    keys = certificates.server_keys(ca, "elsewhere", host="IP:10.9.9.9")
    with processes.nameserver(tmp_path, **keys) as names:
        check_refused(names.address, ca, "IP address mismatch")


def test_a_certificate_that_has_expired_is_refused(ca):
    """By a server of Python's: ours does not begin with one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificates.signed(ca, "expired", days=0))
    time.sleep(1.1)  # It is valid in the second of its making.
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with contextlib.suppress(OSError):
                        context.wrap_socket(connection, server_side=True).close()

        threading.Thread(target=serve, daemon=True).start()
        check_refused(f"127.0.0.1:{listener.getsockname()[1]}", ca, "expired")
        listener.shutdown(socket.SHUT_RDWR)


def check_refused(address: str, ca: Path, words: str) -> None:
    settings = ClientSettings(tls=trusting(ca))
    with (
        pytest.raises(CometError, match=words),
        Admin(address, settings=settings) as admin,
    ):
        admin.brokers.cluster()


def test_clients_show_certificates_where_they_must_and_a_key_has_its_password(ca, tmp_path):
    keys = {
        **certificates.server_keys(ca, "locked", password="pass-word"),
        "tls.server.keyPassword": "pass-word",
        "tls.server.need.client.auth": "require",
        "tls.server.trustCertPath": ca,
    }
    names = processes.nameserver(tmp_path / "names", **keys)
    own = certificates.signed(ca, "client")
    with names:
        answer, _ = ask(names.address, client_context(ca, own))
        assert b"clusterAddrTable" in answer
        with pytest.raises((OSError, ConnectionError)):
            ask(names.address, client_context(ca))
        stranger = certificates.signed(certificates.authority(tmp_path, "strangers"), "s")
        with pytest.raises((OSError, ConnectionError)):
            ask(names.address, client_context(ca, stranger))
        tls = trusting(ca, cert_file=str(own[0]), key_file=str(own[1]))
        with Admin(names.address, settings=ClientSettings(tls=tls)) as admin:
            assert admin.brokers.cluster().brokers == {}
    assert "pass-word" not in names.log.read_text()


def test_permissive_takes_both_and_a_new_certificate_is_taken_within_5_s(ca, tmp_path):
    keys = {**certificates.server_keys(ca, "changing"), "tls.server.mode": "permissive"}
    key = keys["tls.server.keyPath"]
    with processes.nameserver(tmp_path, **keys) as names, contextlib.ExitStack() as stack:
        assert frames.ask(names.address, 106)[0]["code"] == 0
        context = client_context(ca)
        _, first = ask(names.address, context)
        old = stack.enter_context(
            socket.create_connection((names.host, names.port), timeout=10)
        )
        old = stack.enter_context(context.wrap_socket(old, server_hostname="127.0.0.1"))
        key.write_text("no key")
        wait_until(
            lambda: "the old one stays in use" in names.log.read_text(),
            seconds=10,
            what="a line",
        )
        assert ask(names.address, context)[1] == first
        certificates.signed(ca, "changing")
        began = time.monotonic()
        wait_until(
            lambda: ask(names.address, context)[1] != first, seconds=10, what="the new one"
        )
        assert time.monotonic() - began < 6
        old.sendall(json_frame(106))
        assert b"clusterAddrTable" in read_frame(old)


def test_strangers_at_a_tls_port_stop_nobody(cluster, ca):
    """Silent ones, halves of a handshake, noise: a good client is answered meanwhile."""
    names, _ = cluster
    with contextlib.ExitStack() as stack:
        for number in range(200):
            bad = socket.create_connection((names.host, names.port), timeout=10)
            stack.enter_context(bad)
            with contextlib.suppress(OSError):
                bad.sendall(
                    (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00", b"\x16" + bytes(5000))[
                        number % 4
                    ]
                )
        began = time.monotonic()
        for _ in range(5):
            assert b"clusterAddrTable" in ask(names.address, client_context(ca))[0]
        assert time.monotonic() - began < 2
    assert "Traceback" not in names.log.read_text()
