"""A bad peer at the pages of a broker, and a good client at its port: endless heads, paths of any length, who never reads."""

import contextlib
import socket

from tests.support import processes
from tests.support.good_client import GoodClient
from tests.support.load import send_all
from tests.support.metrics_page import page
from tests.support.processes import free_port, wait_until

TOPICS = 500
VERSION = b" HTTP/1.1\r\nHost: x\r\n"
ENDLESS = b"GET /metrics" + VERSION + b"X: y\r\n"


def ask(port: int, request: bytes) -> bytes:
    """What a request is answered, however it ends."""
    got = b""
    with (
        contextlib.suppress(ConnectionError),
        socket.create_connection(("127.0.0.1", port), 30) as peer,
    ):
        peer.sendall(request)
        while piece := peer.recv(65_536):
            got += piece
    return got


def test_nobody_at_the_pages_keeps_a_good_client_waiting(tmp_path, nameserver):
    port = free_port()
    program = processes.broker(
        tmp_path / "broker", nameserver.address, settings={"metricsPromExporterPort": port}
    )
    with program as broker:
        for number in range(TOPICS):
            send_all(broker.address, f"Page{number}", [b"x"])
        with (
            GoodClient(broker.address, broker.pid) as good,
            contextlib.ExitStack() as open_ones,
        ):
            for path in (
                b"/" + b"a" * 7_000,
                b"/" + b"a" * (4 << 20),
                b"/metrics?" + b"%00" * 2_000,
            ):
                assert ask(port, b"GET " + path + VERSION + b"\r\n")[:9] in (
                    b"HTTP/1.1 ",
                    b"",
                )
            assert ask(port, b"\x16\x03\x01" + bytes(20_000))[:9] in (b"HTTP/1.1 ", b"")
            held = [
                open_ones.enter_context(socket.create_connection(("127.0.0.1", port), 30))
                for _ in range(40)
            ]
            for number, peer in enumerate(held):
                with contextlib.suppress(ConnectionError):
                    # The one half never ends its head, the other never reads its page.
                    peer.sendall(ENDLESS + (b"\r\n" if number % 2 else b""))
            # Those whose head does not end go after 5 s, and the others are read no more: there is room again.
            wait_until(
                lambda: ask(port, b"GET /healthz" + VERSION + b"\r\n"),
                seconds=60,
                what="health",
            )
            assert len(page(port)) > TOPICS * 1_000
        good.check()
