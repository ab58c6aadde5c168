"""The gRPC server by hand-made frames, under virtual time: calls, deadlines, limits, and what bad clients get."""

from __future__ import annotations

import asyncio
import gzip
import logging
import zlib
from collections.abc import AsyncIterator

import pytest

from cometmq.net.loop import loop_clock
from cometmq.proxy.grpc.calls import GrpcStatus
from cometmq.proxy.grpc.server import GrpcLimits, GrpcServer
from cometmq.wire.h2.engine import H2Error
from tests.support.grpc_services import TestedServices
from tests.support.h2_client import H2Client
from tests.support.h2_engines import ENGINES
from tests.support.h2_frames import (
    END_HEADERS,
    GOAWAY,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    PREFACE,
    block,
    body_frames,
    frame,
    message,
    request,
    request_fields,
    reset,
    settings,
    window_update,
)

GZIP = (b"grpc-encoding", b"gzip")
NO_WINDOW = PREFACE + settings([(INITIAL_WINDOW_SIZE, 0)])
WIDE_WINDOW = PREFACE + settings([(INITIAL_WINDOW_SIZE, 1 << 30)]) + window_update(1 << 30)


class Place:
    """A server with its services, and clients of it."""

    def __init__(self, limits: GrpcLimits) -> None:
        self.services = TestedServices()
        self.server = GrpcServer(self.services.table, loop_clock(), limits=limits)
        self.port = 0

    async def client(self, hello: bytes | None = None) -> H2Client:
        return await (
            H2Client.connect(self.port) if hello is None else H2Client.connect(self.port, hello)
        )


@pytest.fixture(params=ENGINES.values(), ids=list(ENGINES), autouse=True)
def _engine(request, monkeypatch):
    monkeypatch.setattr("cometmq.proxy.grpc.server.new_engine", request.param)


@pytest.fixture
def limits() -> GrpcLimits:
    return GrpcLimits()


@pytest.fixture
async def place(limits: GrpcLimits) -> AsyncIterator[Place]:
    made = Place(limits)
    made.port = await made.server.start("127.0.0.1", 0)
    yield made
    await made.server.close()
    assert (made.server.held, made.server.unsent, made.server.calls) == (0, 0, 0)
    assert made.services.waiting == []


async def is_alive(client: H2Client) -> bool:
    """Whether a call on the connection is still answered."""
    return (await client.answer(client.call(b"alive?"))).body == message(b"alive?")


async def is_waiting(place: Place) -> None:
    while not place.services.waiting:  # noqa: ASYNC110  Nothing is sent when it changes.
        await asyncio.sleep(0.001)


# --- calls


async def test_a_call_has_its_answer_with_status_and_content_type(place):
    client = await place.client()
    answer = await client.answer(client.call(b"hello"))
    assert answer.head == {":status": "200", "content-type": "application/grpc"}
    assert answer.body == message(b"hello")
    assert answer.trailers == {"grpc-status": "0"}


async def test_a_service_sees_the_method_the_addresses_and_the_headers_that_clients_may_send(
    place,
):
    client = await place.client()
    await client.answer(
        client.call(
            b"", b"/t.T/Echo",
            (b"x-mq-client-id", b"me@host"), (b"authorization", b"MQv2"), (b"x-mq-channel-id", b"7"),
            (b"user-agent", b"any"), (b"grpc-timeout", b"3S"),
        )
    )  # fmt: skip
    call = place.services.calls[0]
    assert call.method == "Echo"
    assert call.metadata == {"x-mq-client-id": "me@host", "authorization": "MQv2"}
    assert call.remote[0] == "127.0.0.1"
    assert call.remote[1] == client.transport.get_extra_info("sockname")[1]
    assert call.local == ("127.0.0.1", place.port)
    assert call.deadline == pytest.approx(loop_clock().monotonic() + 3, abs=0.1)


async def test_the_answers_to_one_read_come_in_one_write(place):
    client = await place.client()
    await client.answer(client.call())
    before = client.reads
    streams = range(101, 165, 2)
    client.say(
        *(request(each) + body_frames(each, message(b"x"), is_last=True) for each in streams)
    )
    await client.answer(streams[-1])
    assert client.reads == before + 1


async def test_a_stream_of_answers_and_a_conversation(place):
    client = await place.client()
    assert (await client.answer(client.call(b"3 2", b"/t.T/Many"))).body == message(b"\0\0") * 3

    stream = client.call(None, b"/t.T/Talk")
    client.say(body_frames(stream, message(b"one") + message(b"two")[:6]))
    await client.until(lambda it: it.responses.get(stream))
    client.say(body_frames(stream, message(b"two")[6:]))
    client.say(body_frames(stream, b"", is_last=True))
    answer = await client.answer(stream)
    assert answer.body == message(b"ONE") + message(b"TWO")
    assert answer.status == 0
    assert place.services.talks[0].events == ["one", "two", "half closed", "closed"]


async def test_compressed_messages_are_read(place):
    client = await place.client()
    stream = client.call(None, b"/t.T/Echo", GZIP)
    client.say(
        body_frames(stream, message(gzip.compress(b"text" * 1000), flag=1), is_last=True)
    )
    assert (await client.answer(stream)).body == message(b"text" * 1000)


async def test_a_client_that_gives_up_is_told_to_the_service_once(place):
    client = await place.client()
    stream = client.call(b"", b"/t.T/Wait")
    await is_alive(client)
    waiting = place.services.waiting[0]
    client.say(reset(stream))
    await is_alive(client)
    assert place.services.closed == 1
    assert waiting.is_closed
    assert waiting.is_paused
    waiting.answer(b"late")
    waiting.finish()
    assert await is_alive(client)
    assert stream not in client.responses


async def test_a_lost_connection_ends_its_calls(place):
    client = await place.client()
    client.call(b"", b"/t.T/Wait")
    client.call(None, b"/t.T/Talk")
    client.call(None)
    await is_alive(client)
    client.transport.abort()
    other = await place.client()
    assert await is_alive(other)
    assert place.services.closed == 1
    assert place.services.talks[0].events == ["closed"]


# --- deadlines


async def test_a_call_ends_at_its_deadline(place):
    client = await place.client()
    began = loop_clock().monotonic()
    answer = await client.answer(client.call(b"", b"/t.T/Wait", (b"grpc-timeout", b"1500m")))
    assert answer.status == GrpcStatus.DEADLINE_EXCEEDED
    assert 1.5 <= loop_clock().monotonic() - began < 1.7
    assert place.services.closed == 1


async def test_deadlines_come_in_their_order_whatever_the_order_of_the_calls(place):
    client = await place.client()
    streams = [
        client.call(b"", b"/t.T/Wait", (b"grpc-timeout", timeout))
        for timeout in (b"99999999H", b"9S", b"2S", b"5S")
    ]
    for seconds, stream in ((2, streams[2]), (3, streams[3]), (4, streams[1])):
        assert (
            await client.answer(stream, seconds + 0.3)
        ).status == GrpcStatus.DEADLINE_EXCEEDED
    assert len(place.services.waiting) == 1
    client.say(reset(streams[0]))
    assert await is_alive(client)


async def test_a_call_that_waits_for_its_request_ends_at_its_deadline(place):
    client = await place.client()
    answer = await client.answer(client.call(None, b"/t.T/Echo", (b"grpc-timeout", b"1S")), 2)
    assert answer.status == GrpcStatus.DEADLINE_EXCEEDED


async def test_a_deadline_frees_answers_that_the_client_does_not_read(place):
    client = await place.client(NO_WINDOW)
    stream = client.call(b"", b"/t.T/Wait", (b"grpc-timeout", b"1S"))
    await is_waiting(place)
    place.services.waiting[0].answer(bytes(100_000))
    answer = await client.answer(stream, 2)
    assert answer.reset == H2Error.CANCEL
    assert [each.engine.unsent for each in place.server.peers] == [0]


# --- calls that end alone

LARGE = [(b"x-%d" % at, b"v" * 1000) for at in range(20)]
BAD_CALLS = {
    "unknown method": (b"/t.T/Other", [], message(b""), GrpcStatus.UNIMPLEMENTED),
    "unknown service": (b"/", [], message(b""), GrpcStatus.UNIMPLEMENTED),
    "malformed timeout": (b"/t.T/Echo", [(b"grpc-timeout", b"5")], message(b""), GrpcStatus.INTERNAL),
    "timeout of 9 digits": (
        b"/t.T/Echo", [(b"grpc-timeout", b"123456789S")], message(b""), GrpcStatus.INTERNAL,
    ),
    "timeout of nothing": (
        b"/t.T/Echo", [(b"grpc-timeout", b"0m")], message(b""), GrpcStatus.DEADLINE_EXCEEDED,
    ),
    "unknown compression": (
        b"/t.T/Echo", [(b"grpc-encoding", b"br")], message(b""), GrpcStatus.UNIMPLEMENTED,
    ),
    "compressed, but not told how": (b"/t.T/Echo", [], message(b"x", flag=1), GrpcStatus.INTERNAL),
    "unknown flag": (b"/t.T/Echo", [GZIP], message(b"x", flag=2), GrpcStatus.INTERNAL),
    "no gzip": (b"/t.T/Echo", [GZIP], message(b"x" * 50, flag=1), GrpcStatus.INTERNAL),
    "half a gzip": (
        b"/t.T/Echo", [GZIP], message(gzip.compress(b"x" * 5000)[:-9], flag=1), GrpcStatus.INTERNAL,
    ),
    "gzip bomb": (
        b"/t.T/Echo", [GZIP],
        message(zlib.compress(bytes(64 << 20), wbits=31), flag=1), GrpcStatus.RESOURCE_EXHAUSTED,
    ),
    "message too large": (
        b"/t.T/Echo", [], message(b"", length=(130 << 20) + 1), GrpcStatus.RESOURCE_EXHAUSTED,
    ),
    "no message": (b"/t.T/Echo", [], b"", GrpcStatus.INTERNAL),
    "two messages": (b"/t.T/Echo", [], message(b"a") * 2, GrpcStatus.INTERNAL),
    "half a message": (b"/t.T/Echo", [], message(b"abc", length=9), GrpcStatus.INTERNAL),
    "half a prefix": (b"/t.T/Echo", [], b"\0\0", GrpcStatus.INTERNAL),
    "failing service": (b"/t.T/Fail", [], message(b"it"), GrpcStatus.INTERNAL),
    "too many headers": (b"/t.T/Echo", LARGE, message(b""), GrpcStatus.RESOURCE_EXHAUSTED),
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "fields", "body", "status"), BAD_CALLS.values(), ids=BAD_CALLS
)
async def test_a_bad_call_ends_alone_with_its_status(place, path, fields, body, status):
    client = await place.client()
    payload = block(request_fields(path, *fields))
    flags = END_HEADERS if len(payload) <= 16384 else 0
    client.say(frame(HEADERS, payload[:16384], stream=1, flags=flags))
    if not flags:
        client.say(frame(9, payload[16384:], stream=1, flags=END_HEADERS))
    client.say(body_frames(1, body, is_last=True))
    answer = await client.answer(1)
    assert answer.status == status
    assert answer.text
    if b"br" in dict(fields).values():
        assert answer.head["grpc-accept-encoding"] == "identity,gzip"
    client._next_stream = 3
    assert await is_alive(client)


async def test_a_text_of_a_service_is_percent_encoded(place):
    client = await place.client()
    answer = await client.answer(client.call(b"", b"/t.T/Refuse"))
    assert answer.status == GrpcStatus.FAILED_PRECONDITION
    assert answer.text == "not now: 100 %25 sp%C3%A4ter"


async def test_a_failing_service_is_logged(place, caplog):
    client = await place.client()
    with caplog.at_level(logging.ERROR, "cometmq"):
        answer = await client.answer(client.call(b"it", b"/t.T/Fail"))
    assert "cannot do it" in answer.text
    assert [each.getMessage() for each in caplog.records] == ["a call of Fail failed"]


@pytest.mark.parametrize(
    ("method", "content_type", "status"),
    [
        (b"GET", b"application/grpc", "405"),
        (b"POST", b"application/json", "415"),
        (b"POST", b"application/grpcx", "415"),
    ],
)
async def test_a_request_that_is_no_call_gets_a_status_of_http(
    place, method, content_type, status
):
    client = await place.client()
    fields = [
        (name, {b":method": method, b"content-type": content_type}.get(name, value))
        for name, value in request_fields()
    ]
    client.say(request(1, fields, is_last=True))
    answer = await client.answer(1)
    assert answer.head[":status"] == status
    assert answer.body
    client._next_stream = 3
    assert await is_alive(client)


@pytest.mark.parametrize("content_type", [b"application/grpc+proto", b"application/grpc;v=1"])
async def test_content_types_of_grpc_may_say_more(place, content_type):
    client = await place.client()
    fields = [
        (name, content_type if name == b"content-type" else value)
        for name, value in request_fields()
    ]
    client.say(request(1, fields), body_frames(1, message(b"x"), is_last=True))
    assert (await client.answer(1)).status == 0


# --- limits in time


async def test_a_request_that_is_never_complete_ends_after_30_seconds(place):
    client = await place.client()
    empty, half = client.call(None), client.call(None)
    client.say(body_frames(half, message(b"abc", length=9)))
    talk = client.call(None, b"/t.T/Talk")
    client.say(body_frames(talk, message(b"abc", length=9)))
    began = loop_clock().monotonic()
    for stream in (empty, half, talk):
        assert (await client.answer(stream)).status == GrpcStatus.DEADLINE_EXCEEDED
    assert 30 <= loop_clock().monotonic() - began <= 36
    assert await is_alive(client)


async def test_a_conversation_may_be_silent_as_long_as_its_client_shows_signs_of_life(place):
    client = await place.client()
    stream = client.call(None, b"/t.T/Talk")
    await asyncio.sleep(1800)
    client.say(body_frames(stream, message(b"still here"), is_last=True))
    assert (await client.answer(stream)).body == message(b"STILL HERE")


async def test_a_client_that_is_gone_without_a_word_loses_its_calls(place):
    client = await place.client()
    client.answers_pings = False
    client.call(None, b"/t.T/Talk")
    await client.until(lambda it: it.is_lost, 160)
    assert place.services.talks[0].events == ["closed"]


async def test_a_connection_without_calls_is_closed_with_a_goaway(place):
    client = await place.client()
    assert await is_alive(client)
    client.say(frame(6, b"12345678"))
    began = loop_clock().monotonic()
    await client.until(lambda it: it.is_lost)
    assert client.goaways == [H2Error.NO_ERROR]
    assert 115 <= loop_clock().monotonic() - began <= 130


async def test_a_client_that_shuts_its_window_loses_the_call_after_30_seconds(place):
    client = await place.client(NO_WINDOW)
    stream = client.call(b"1 100000", b"/t.T/Many")
    other = client.call(b"", b"/t.T/Wait")
    answer = await client.answer(stream, 42)
    assert answer.reset == H2Error.CANCEL
    assert [each.engine.unsent for each in place.server.peers] == [0]
    client.say(reset(other))


async def test_a_client_that_reads_nothing_is_neither_read_nor_kept(place):
    client = await place.client(WIDE_WINDOW)
    client.transport.pause_reading()
    client.call(b"64 1000000", b"/t.T/Many")
    for _ in range(1000):
        client.call(b"1 1000", b"/t.T/Many")
    await asyncio.sleep(20)
    connection = next(iter(place.server.peers))
    assert connection.engine.unsent < 70 << 20
    assert connection._transport.get_write_buffer_size() < 2 << 20
    other = await place.client()
    assert await is_alive(other)
    await asyncio.sleep(30)
    assert len(place.server.peers) == 1


# --- limits in bytes


async def test_a_call_sees_that_its_client_does_not_read(place):
    client = await place.client(NO_WINDOW)
    client.call(b"", b"/t.T/Wait")
    await is_waiting(place)
    waiting = place.services.waiting[0]
    assert waiting.is_paused
    client.say(window_update(1000, 1))
    await asyncio.sleep(0.1)
    assert not waiting.is_paused
    waiting.answer(bytes(2000))
    await asyncio.sleep(0.1)
    assert waiting.is_paused
    client.say(window_update(5000, 1))
    await asyncio.sleep(0.1)
    assert not waiting.is_paused
    waiting.finish()
    assert len((await client.answer(1)).body) == 2005


@pytest.mark.parametrize("limits", [GrpcLimits(unsent_of_connection=100_000)])
async def test_a_client_with_too_many_unread_answers_gets_no_new_calls(place):
    client = await place.client(NO_WINDOW)
    waiting = client.call(b"", b"/t.T/Wait")
    first = client.call(b"2 60000", b"/t.T/Many")
    second = client.call(b"1 1", b"/t.T/Many")
    assert (await client.answer(second)).status == GrpcStatus.RESOURCE_EXHAUSTED
    client.say(window_update(1 << 20), window_update(1 << 20, first))
    assert len((await client.answer(first)).body) == 2 * 60_005
    third = client.call(b"0 0", b"/t.T/Many")
    assert (await client.answer(third)).status == 0
    client.say(reset(waiting))


@pytest.mark.parametrize(
    "limits",
    [GrpcLimits(held_of_connection=110_000), GrpcLimits(held=110_000)],
    ids=["of a connection", "of all"],
)
async def test_incomplete_requests_are_limited_and_others_go_on(place, limits):
    clients = [await place.client(WIDE_WINDOW), await place.client(WIDE_WINDOW)]
    of_one = limits.held_of_connection == 110_000
    streams = []
    for client in clients[:1] if of_one else clients:
        for _ in range(4 if of_one else 2):
            streams.append((client, client.call(None)))
            client.say(body_frames(streams[-1][1], message(b"x" * 30_000, length=40_000)))
    client, last = streams[-1]
    assert (await client.answer(last)).status == GrpcStatus.RESOURCE_EXHAUSTED
    assert place.server.held == 3 * 30_005
    for sender, stream in streams[:-1]:
        sender.say(body_frames(stream, b"x" * 10_000, is_last=True))
        assert (await sender.answer(stream)).body == message(b"x" * 40_000)
    assert place.server.held == 0
    assert await is_alive(clients[0])


@pytest.mark.parametrize("limits", [GrpcLimits(unsent=1_000_000)])
async def test_the_client_with_most_unread_answers_goes_when_all_have_too_many(place):
    clients = [await place.client(NO_WINDOW) for _ in range(3)]
    for client, size in zip(clients, (300_000, 500_000, 250_000), strict=True):
        client.call(b"", b"/t.T/Wait")
        await is_waiting(place)
        place.services.waiting[-1].answer(b"first")
        await client.until(lambda it: it.responses)
        place.services.waiting[-1].answer(bytes(size))
        place.services.waiting[-1].finish()
        await asyncio.sleep(0.1)
    assert [client.is_lost for client in clients] == [False, True, False]
    assert 550_000 <= place.server.unsent <= 551_000
    other = await place.client()
    assert await is_alive(other)


@pytest.mark.parametrize("limits", [GrpcLimits(calls=3)])
async def test_open_calls_are_limited_and_each_that_ends_makes_room(place):
    client = await place.client()
    streams = [client.call(b"", b"/t.T/Wait") for _ in range(3)]
    refused = await client.answer(client.call(b"", b"/t.T/Wait"))
    assert refused.status == GrpcStatus.RESOURCE_EXHAUSTED
    client.say(reset(streams[0]))
    assert await is_alive(client)


async def test_a_message_in_many_pieces_is_put_together(place):
    client = await place.client()
    stream = client.call(None)
    body = message(bytes(range(256)) * 100)
    client.say(*(body_frames(stream, body[at : at + 7]) for at in range(0, len(body), 7)))
    client.say(body_frames(stream, b"", is_last=True))
    assert (await client.answer(stream)).body == body


async def test_a_connection_with_a_fault_is_told_why_and_its_calls_end(place):
    client = await place.client()
    client.call(b"", b"/t.T/Wait")
    await is_alive(client)
    client.say(frame(6, b"12345678") * 1000)
    await client.until(lambda it: it.is_lost)
    assert client.goaways == [H2Error.ENHANCE_YOUR_CALM]
    assert place.services.closed == 1


# --- closing


async def test_a_server_that_closes_lets_calls_end_and_takes_no_more(place):
    place.server.on_drain.append(place.services.end_waits)
    client = await place.client()
    stream = client.call(b"", b"/t.T/Wait")
    talk = client.call(None, b"/t.T/Talk")
    await is_alive(client)
    closing = asyncio.create_task(place.server.close())
    assert (await client.answer(stream)).status == 0
    on_its_way = client.call(b"on its way")
    assert (await client.answer(on_its_way)).body == message(b"on its way")
    await client.until(lambda it: len(it.goaways) == 2)
    late = client.call(b"late")
    assert (await client.answer(late)).reset == H2Error.REFUSED_STREAM
    client.say(body_frames(talk, message(b"bye"), is_last=True))
    assert (await client.answer(talk)).body == message(b"BYE")
    async with asyncio.timeout(3):
        await closing
    last_streams = [
        int.from_bytes(each.payload[:4]) for each in client.frames if each.kind == GOAWAY
    ]
    assert last_streams == [2**31 - 1, on_its_way]


async def test_a_call_that_never_ends_holds_up_closing_for_30_seconds(place):
    client = await place.client()
    client.call(b"", b"/t.T/Wait")
    await is_alive(client)
    began = loop_clock().monotonic()
    await place.server.close()
    assert 30 <= loop_clock().monotonic() - began <= 36
    assert place.services.closed == 1
