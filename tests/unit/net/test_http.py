"""A few pages over HTTP: what is asked well is answered, and nobody holds the server by asking badly."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from http import HTTPStatus

import pytest

from cometmq.model.errors import NetError
from cometmq.net.clock import SystemClock
from cometmq.net.http import BOUNDS, HEAD_SIZE_MAX, HttpAnswer, HttpServer, words

BIG = (b"x" * 65_536,) * 200


async def hello() -> HttpAnswer:
    return words("hello")


async def broken() -> HttpAnswer:
    raise ValueError("the page's own fault")


async def big() -> HttpAnswer:
    return HttpAnswer(BIG)


@contextlib.asynccontextmanager
async def serving(**bounds):
    pages = {"/hello": hello, "/broken": broken, "/big": big}
    server = HttpServer(pages, SystemClock(), **bounds)
    await server.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.close()


async def ask(server: HttpServer, request: bytes, *, is_ended: bool = False) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request)
    if is_ended:
        writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


async def get(server: HttpServer, path: str) -> tuple[int, bytes]:
    answer = await ask(server, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}\r\n".encode() in head
    return int(head.split(b" ")[1]), body


async def test_a_page_is_given_whole():
    async with serving() as server:
        assert await get(server, "/hello") == (200, b"hello\n")
        assert await get(server, "/hello?x=1") == (200, b"hello\n")
        status, body = await get(server, "/big")
        assert (status, len(body)) == (200, 200 * 65_536)
        head = await ask(server, b"HEAD /big HTTP/1.0\r\n\r\n")
        assert head.endswith(b"\r\n\r\n")
        assert b"Content-Length: 13107200" in head


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET /%0d%0aX:y HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET /\xff\x1b[31m HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", 405),
        (b"GET /hello\r\n\r\n", 400),
        (b"GET http://elsewhere/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /hello HTTP/2\r\n\r\n", 400),
        (b"\x00\x00\x00\x10\x00\x00\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"GET /broken HTTP/1.1\r\nHost: x\r\n\r\n", 500),
        (b"GET /" + b"a" * HEAD_SIZE_MAX + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
        (b"GET /hello HTTP/1.1\r\n" + b"X: y\r\n" * 4_000, 431),
        (b"GET /hello HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 4_000 + b"\r\n", 431),
        (b"GET /hello HTTP/1.1\r\n\r\n", 400),
        (b"GET /hello HTTP/1.1\r\nHost: x\r\nHost: 127.0.0.1\r\n\r\n", 400),
        (b"GET /hello HTTP/1.1\r\nHost: x\r\n X: folded\r\nX : y\r\n\r\n", 400),
    ],
)
async def test_what_is_asked_badly_is_refused_in_words(request_, status):
    async with serving() as server:
        answer = await ask(server, request_)
        assert answer.startswith(f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode())
        assert b"the page's own fault" not in answer
        assert b"\x1b" not in answer
        assert await get(server, "/hello") == (200, b"hello\n")


async def test_a_head_that_never_ends_is_cut_off():
    async with serving(head_seconds_max=5.0) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                writer.write(b"x")
                await asyncio.sleep(0.1)
                if reader.at_eof() or reader.exception() is not None:
                    break
            else:
                pytest.fail("it may go on for ever")
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        assert await get(server, "/hello") == (200, b"hello\n")


async def test_who_does_not_read_is_cut_off():
    async with serving(answer_seconds_max=0.5) as server:
        transport, _ = await asyncio.get_running_loop().create_connection(
            asyncio.Protocol, "127.0.0.1", server.port
        )
        transport.pause_reading()
        transport.write(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(0.2)
        assert server.peers
        await asyncio.sleep(1.0)
        assert not server.peers
        transport.abort()


async def test_so_many_connections_and_no_more():
    async with serving(bounds=replace(BOUNDS, count_max=2)) as server:
        # They have asked, and do not read what they are given.
        held = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(2)]
        for _, writer in held:
            writer.write(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(0.1)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 3) == b""
        writer.close()
        for _, each in held:
            each.close()
        await asyncio.sleep(0.1)
        assert await get(server, "/hello") == (200, b"hello\n")


async def test_the_oldest_silent_connection_goes_for_a_newcomer():
    async with serving(head_seconds_max=60.0) as server:
        silent = []
        for number in range(48):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            if number % 2:
                writer.write(b"GET /hello HTTP/1.1\r\n")  # Half a head is as good as none.
            silent.append((reader, writer))
            if number % 8 == 7:
                assert await get(server, "/hello") == (200, b"hello\n")
        # The oldest are gone.
        async with asyncio.timeout(30):
            assert await silent[0][0].read() == b""
        assert len(server.peers) <= 16
        for _, writer in silent:
            writer.close()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:5557", 200), ("localhost", 200), ("[::1]:5557", 200), ("10.0.0.1", 200),
        ("broker-a:5557", 200), ("evil.example.org", 421), ("evil.example.org.:5557", 421),
        ("127.0.0.1.evil.example.org:5557", 421),
    ],
)  # fmt: skip
async def test_a_page_of_another_site_reads_nothing_by_a_name_that_it_binds_to_this_machine(
    host, status
):
    async with serving() as server:
        request = f"GET /hello HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        answer = await ask(server, request)
    assert answer.startswith(b"HTTP/1.1 %d " % status)


async def test_half_a_request_is_no_answer_and_one_that_ends_is():
    async with serving() as server:
        assert await ask(server, b"GET /hello HTTP/1.1\r\nHost: x\r\n", is_ended=True) == b""
        answer = await ask(server, b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n", is_ended=True)
        assert answer.endswith(b"hello\n")


async def test_a_taken_port_is_an_error_of_its_own():
    async with serving() as server:
        with pytest.raises(NetError, match=f"cannot listen on 127.0.0.1:{server.port}"):
            await HttpServer({}, SystemClock()).start("127.0.0.1", server.port)
