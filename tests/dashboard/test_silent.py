"""Connections that say nothing shut the dashboard for nobody."""

import contextlib
import socket
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.dashboard.web import Served

COUNT = 260


@contextlib.contextmanager
def held(served: Served, said: bytes, count: int = COUNT) -> Iterator[list[socket.socket]]:
    """So many connections that have said no more than this."""
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(count):
            made = socket.create_connection(("127.0.0.1", served.port), timeout=20)
            stack.enter_context(made)
            with contextlib.suppress(OSError):
                made.sendall(said)
            connections.append(made)
        yield connections


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET /login HTTP/1.1\r\nHost: 127.0",
        b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_silent_connections_shut_the_login_for_nobody(served, said):
    with (
        held(served, said),
        httpx.Client(base_url=served.url, trust_env=False, timeout=20) as http,
    ):
        for _ in range(3):
            assert http.get("/login", headers={"Connection": "close"}).status_code == 200


@pytest.mark.parametrize("said", [b"", b"GET /login HTTP/1.1\r\nHost: 127.0"])
def test_a_connection_whose_request_does_not_come_is_closed(served, said):
    with held(served, said, count=1) as (connection,):
        connection.settimeout(30)
        began = time.monotonic()
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""
    assert time.monotonic() - began > 2, "a slow browser has some time"


def test_the_second_request_of_a_connection_has_a_time_too(served):
    asked = b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with held(served, asked, count=1) as (connection,):
        connection.settimeout(30)
        answer = b""
        while b"</html>" not in answer:
            answer += connection.recv(65_536)
        connection.sendall(b"GET /login HTTP/1.1\r\nHost: 127")
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(65_536):
                pass
