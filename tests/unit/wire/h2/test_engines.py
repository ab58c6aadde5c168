"""Each HTTP/2 engine: what good clients get, and what each kind of bad one is told, in bounded memory."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from functools import partial

import pytest
from jh2.hpack import Decoder

from cometmq.wire.h2.engine import (
    CONNECTION_WINDOW,
    STREAMS_MAX,
    BodyPart,
    Ended,
    Event,
    H2Engine,
    H2Error,
    Opened,
    Reset,
)
from tests.support.h2_engines import ENGINES
from tests.support.h2_frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADER_TABLE_SIZE,
    HEADERS,
    HELLO,
    INITIAL_WINDOW_SIZE,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    WITH_PRIORITY,
    Frame,
    block,
    body_frames,
    frame,
    frames_in,
    request,
    request_fields,
    reset,
    responses,
    settings,
    window_update,
)
from tests.support.memory import MIB, anonymous_bytes

HEAD = ((b":status", b"200"),)
TRAILERS = ((b"grpc-status", b"0"),)
FLOW_CONTROL_ERROR, STREAM_CLOSED = 0x3, 0x5


class Talk:
    """An engine, and all that came out of it."""

    make = ENGINES["jh2"]

    def __init__(self, first: bytes = HELLO) -> None:
        self.engine = Talk.make()
        self.sent = b""
        self.events: list[Event] = []
        self.say(first)

    def say(self, *pieces: bytes, now: float = 0.0) -> list[Event]:
        """Receive bytes, and return what events they make."""
        events: list[Event] = []
        for piece in pieces:
            self.engine.receive(piece)
            while self.engine.waiting:
                events += self.engine.events(now)
        self.sent += self.engine.output(1 << 30)
        self.events += events
        return events

    def flush(self, size: int = 1 << 30) -> bytes:
        """Send what the engine has."""
        piece = self.engine.output(size)
        self.sent += piece
        return piece

    @property
    def frames(self) -> list[Frame]:
        return frames_in(self.sent)

    def codes(self, kind: int) -> list[int]:
        """The error codes of RST_STREAM or GOAWAY frames that were sent."""
        return [each.code for each in self.frames if each.kind == kind]

    def is_alive(self, stream: int = 99_001) -> bool:
        """Whether a new request still comes through and is answered."""
        if Opened(stream, request_fields()) not in self.say(request(stream, is_last=True)):
            return False
        self.engine.send_head(stream, HEAD)
        self.engine.send_head(stream, TRAILERS, is_last=True)
        self.flush()
        return responses(self.frames)[stream].trailers == {"grpc-status": "0"}


@pytest.fixture(params=ENGINES.values(), ids=list(ENGINES), autouse=True)
def _engine(request, monkeypatch):
    monkeypatch.setattr(Talk, "make", staticmethod(request.param))


@pytest.fixture
def talk():
    return Talk()


def test_a_request_becomes_events_and_its_response_frames(talk):
    assert talk.say(request(1), body_frames(1, b"question", is_last=True)) == [
        Opened(1, request_fields()),
        BodyPart(1, b"question"),
        Ended(1),
    ]
    talk.engine.send_head(1, HEAD)
    talk.engine.send(1, b"answer")
    talk.engine.send_head(1, TRAILERS, is_last=True)
    talk.flush()
    response = responses(talk.frames)[1]
    assert response == ({":status": "200"}, b"answer", {"grpc-status": "0"}, -1)
    assert talk.frames[-1].flags & END_STREAM
    assert not talk.engine.has_output


def test_bytes_that_come_one_by_one_make_the_same_events():
    said = (
        request(1)
        + body_frames(1, b"some" * 9000, is_last=True)
        + reset(1)
        + request(3, is_last=True)
    )
    whole, single = Talk(), Talk(b"")
    whole.say(said)
    single.say(*(bytes((byte,)) for byte in HELLO + said))
    pieces = b"".join(each.data for each in single.events if isinstance(each, BodyPart))
    assert pieces == b"".join(each.data for each in whole.events if isinstance(each, BodyPart))
    kinds = [
        [type(each) for each in talk.events if not isinstance(each, BodyPart)]
        for talk in (whole, single)
    ]
    assert kinds[0] == kinds[1]


def test_a_reserved_bit_means_nothing(talk):
    talk.say(window_update(1 << 31 | 5, 0), request(1 + (1 << 31), is_last=True))
    assert talk.events[0] == Opened(1, request_fields())
    assert talk.is_alive()


def test_frames_of_unknown_kinds_mean_nothing(talk):
    talk.say(*(frame(kind, b"x" * 5, stream=kind % 2) for kind in range(10, 256)))
    assert talk.events == []
    assert talk.is_alive()


def test_a_long_read_is_handled_a_few_frames_at_a_time():
    engine = Talk.make()
    engine.receive(HELLO + b"".join(request(1 + 2 * at, is_last=True) for at in range(100)))
    steps = 0
    while engine.waiting:
        assert len(engine.events(0.0)) <= 32
        steps += 1
    assert steps > 6


def test_a_response_waits_while_its_window_is_shut():
    talk = Talk(PREFACE + settings([(INITIAL_WINDOW_SIZE, 10)]))
    talk.say(request(1, is_last=True))
    assert not talk.engine.is_blocked(1)
    talk.engine.send_head(1, HEAD)
    talk.engine.send(1, b"012345678")
    assert not talk.engine.is_blocked(1)  # It only waits for `output`.
    talk.engine.send(1, b"9abcdefghij")
    talk.engine.send_head(1, TRAILERS, is_last=True)
    talk.flush()
    assert responses(talk.frames)[1].body == b"0123456789"
    assert talk.engine.is_blocked(1)
    assert talk.engine.unsent == 10
    assert not talk.engine.has_output

    talk.say(window_update(5, 1))
    assert responses(talk.frames)[1].body == b"0123456789abcde"
    talk.say(settings([(INITIAL_WINDOW_SIZE, 15)]))
    assert responses(talk.frames)[1].body == b"0123456789abcdefghij"
    assert responses(talk.frames)[1].trailers == {"grpc-status": "0"}
    assert talk.engine.unsent == 0


def test_the_window_of_the_connection_holds_all_streams_until_it_opens():
    talk = Talk(PREFACE + settings([(INITIAL_WINDOW_SIZE, 1 << 20)]))
    talk.say(request(1, is_last=True), request(3, is_last=True))
    for stream in (1, 3):
        talk.engine.send_head(stream, HEAD)
        talk.engine.send(stream, b"x" * 60_000)
        talk.engine.send_head(stream, TRAILERS, is_last=True)
    talk.flush()
    assert sum(len(each.payload) for each in talk.frames if each.kind == DATA) == 65_535
    talk.say(window_update(100_000))
    assert {len(each.body) for each in responses(talk.frames).values()} == {60_000}


def test_a_library_that_fails_to_send_ends_its_connection(monkeypatch):
    talk = Talk(PREFACE + settings([(INITIAL_WINDOW_SIZE, 4)]))
    talk.say(request(1, is_last=True))
    monkeypatch.setattr(talk.engine, "_window", lambda _: 100)
    talk.engine.send_head(1, HEAD)
    talk.engine.send(1, b"more than the window")
    talk.flush()
    assert talk.codes(GOAWAY) == [H2Error.INTERNAL_ERROR]
    assert talk.engine.fault
    assert talk.say(window_update(100, 1)) == []
    assert talk.flush() == b""


@pytest.mark.skipif("nghttp2" not in ENGINES, reason="nghttp2's module was not built")
def test_nghttp2_reads_no_piece_that_is_gone():
    session = ENGINES["nghttp2"]()._session  # type: ignore[attr-defined]
    session.receive(PREFACE + settings([(INITIAL_WINDOW_SIZE, 4)]) + request(1, is_last=True))
    session.send_head(1, HEAD, False)
    with pytest.raises(RuntimeError, match="less than the windows"):
        session.send_body(1, b"more than the window")
    session.made.clear()
    session.receive(window_update(100, 1))
    assert (
        b"".join(each.payload for each in frames_in(bytes(session.made)) if each.kind == DATA)
        == b""
    )


def test_streams_take_turns_so_that_a_large_answer_does_not_hold_up_a_small_one():
    talk = Talk(PREFACE + settings([(INITIAL_WINDOW_SIZE, 1 << 30)]) + window_update(1 << 30))
    talk.say(request(1, is_last=True), request(3, is_last=True))
    talk.engine.send_head(1, HEAD)
    talk.engine.send(1, b"x" * (4 << 20))
    talk.engine.send_head(3, HEAD)
    talk.engine.send(3, b"small")
    piece = talk.flush(256 << 10)
    assert b"small" in piece
    assert len(piece) < 512 << 10


def test_windows_for_clients_are_given_back_once_half_is_used(talk):
    talk.say(request(1))
    before = len(talk.frames)
    for _ in range(64):
        talk.say(body_frames(1, b"x" * 16_000))
    updates = [each for each in talk.frames[before:] if each.kind == WINDOW_UPDATE]
    assert len(updates) == 1
    assert sum(int.from_bytes(each.payload) for each in updates) >= 512 << 10
    first = [each for each in talk.frames[:3] if each.kind == WINDOW_UPDATE]
    assert int.from_bytes(first[0].payload) == CONNECTION_WINDOW - 65_535


def test_a_response_that_ends_before_its_request_resets_the_rest(talk):
    talk.say(request(1))
    talk.engine.send_head(1, TRAILERS, is_last=True)
    talk.flush()
    assert talk.codes(RST_STREAM) == [H2Error.NO_ERROR]
    assert talk.say(body_frames(1, b"more")) == []  # It was on its way.
    assert talk.is_alive()


def test_what_is_sent_on_a_stream_that_is_over_is_dropped(talk):
    talk.say(request(1, is_last=True), reset(1))
    assert talk.events[-1] == Reset(1)
    talk.engine.send_head(1, HEAD)
    talk.engine.send(1, b"late")
    talk.engine.reset(1, H2Error.CANCEL)
    assert talk.flush() == b""
    assert talk.engine.unsent == 0
    assert talk.engine.is_blocked(1)


def test_what_is_sent_after_the_end_is_dropped(talk):
    talk.say(request(1, is_last=True))
    for _ in range(2):
        talk.engine.send_head(1, HEAD)
        talk.engine.send(1, b"answer")
        talk.engine.send_head(1, TRAILERS, is_last=True)
    talk.flush()
    assert responses(talk.frames)[1].body == b"answer"
    assert talk.engine.unsent == 0


def test_a_reset_frees_what_waited():
    talk = Talk(PREFACE + settings([(INITIAL_WINDOW_SIZE, 0)]))
    talk.say(request(1, is_last=True))
    talk.engine.send_head(1, HEAD)
    talk.engine.send(1, b"x" * 5000)
    talk.flush()
    assert talk.engine.unsent == 5000
    talk.say(reset(1))
    assert talk.engine.unsent == 0


def test_a_stream_whose_client_never_reads_is_found_after_its_time():
    talk = Talk(PREFACE + settings([(INITIAL_WINDOW_SIZE, 1)]))
    talk.say(request(1, is_last=True))
    talk.engine.send_head(1, HEAD)
    talk.engine.send(1, b"xyz")
    talk.flush()
    assert talk.engine.stalled(100.0, 30.0) == []
    assert talk.engine.stalled(129.0, 30.0) == []
    assert talk.engine.stalled(130.0, 30.0) == [1]
    talk.say(window_update(1, 1))
    assert talk.engine.stalled(131.0, 30.0) == []


def test_a_client_that_announces_its_leave_gets_the_answers_to_its_calls(talk):
    talk.say(request(1, is_last=True), frame(GOAWAY, bytes(8)))
    talk.engine.send_head(1, HEAD)
    talk.engine.send(1, b"answer")
    talk.engine.send_head(1, TRAILERS, is_last=True)
    talk.flush()
    assert responses(talk.frames)[1].body == b"answer"


def test_a_server_that_leaves_first_serves_calls_on_their_way_and_then_refuses_more(talk):
    talk.say(request(1, is_last=True))
    talk.engine.go_away(is_final=False)
    talk.say(request(3, is_last=True))
    talk.engine.go_away(is_final=True)
    talk.say(request(5, is_last=True))
    goaways = [each.payload[:4] for each in talk.frames if each.kind == GOAWAY]
    assert [int.from_bytes(each) for each in goaways] == [2**31 - 1, 3]
    assert [each.stream for each in talk.events if isinstance(each, Opened)] == [1, 3]
    assert {each.stream: each.code for each in talk.frames if each.kind == RST_STREAM} == {5: 7}


def test_a_ping_is_answered_and_one_is_sent(talk):
    talk.say(frame(PING, b"12345678"))
    assert talk.frames[-1] == Frame(PING, ACK, 0, b"12345678")
    talk.engine.ping()
    talk.flush()
    assert talk.frames[-1].kind == PING
    assert talk.frames[-1].flags == 0


# --- bad calls, which end alone

MALFORMED = {
    "no path": [each for each in request_fields() if each[0] != b":path"],
    "empty path": request_fields(b""),
    "path twice": [(b":path", b"/other"), *request_fields()],
    "unknown pseudo-header": [(b":colour", b"red"), *request_fields()],
    "status of a response": [(b":status", b"200"), *request_fields()],
    "pseudo-header at the end": [*request_fields(), (b":authority", b"again")],
    "upper-case name": request_fields(b"/", (b"X-Mq-Client-Id", b"a")),
    "empty name": request_fields(b"/", (b"", b"a")),
    "name with a space": request_fields(b"/", (b"x mq", b"a")),
    "line end in a value": request_fields(b"/", (b"x-mq-client-id", b"a\r\nb: c")),
    "zero byte in a value": request_fields(b"/\0"),
    "header of the connection": request_fields(b"/", (b"connection", b"close")),
    "other te": request_fields(b"/", (b"te", b"gzip")),
}


@pytest.mark.parametrize("fields", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_request_ends_its_stream_alone(talk, fields):
    assert talk.say(request(1, fields, is_last=True)) == [Reset(1)]
    assert talk.codes(RST_STREAM) == [H2Error.PROTOCOL_ERROR]
    assert talk.is_alive()


def test_malformed_trailers_end_their_stream_alone(talk):
    talk.say(request(1), request(1, [(b":path", b"/")], is_last=True))
    assert talk.codes(RST_STREAM) == [H2Error.PROTOCOL_ERROR]
    assert talk.is_alive()


def test_too_many_headers_are_told_from_others_and_later_ones_are_still_understood(talk):
    large = request_fields(b"/", *((b"x-%d" % at, b"v" * 1000) for at in range(17)))
    payload = block(large, is_indexed=True)
    assert len(payload) > 16384
    first, rest = payload[:16000], payload[16000:]
    opened = talk.say(
        frame(HEADERS, first, stream=1, flags=END_STREAM)
        + frame(CONTINUATION, rest, stream=1, flags=END_HEADERS)
    )
    assert opened == [Opened(1, None), Ended(1)]
    # Its fields are in the table of the compression, the last one at index 62.
    again = block(request_fields()) + b"\xbe"
    talk.say(frame(HEADERS, again, stream=3, flags=END_HEADERS | END_STREAM))
    assert talk.events[-2] == Opened(3, request_fields(b"/t.T/Echo", (b"x-16", b"v" * 1000)))


def test_a_stream_above_the_limit_is_refused_and_one_that_ends_makes_room(talk):
    talk.say(b"".join(request(1 + 2 * at, is_last=True) for at in range(STREAMS_MAX)))
    beyond = 1 + 2 * STREAMS_MAX
    assert talk.say(request(beyond, is_last=True)) == []
    assert talk.codes(RST_STREAM) == [H2Error.REFUSED_STREAM]
    talk.engine.send_head(1, TRAILERS, is_last=True)
    talk.flush()
    assert talk.is_alive(beyond + 2)


def calls_of_functions(talk: Talk, said: bytes) -> int:
    """How many functions it takes to handle some bytes and to send what follows."""
    counted = Counter[str]()
    talk.engine.receive(said)
    sys.setprofile(lambda _frame, event, _argument: counted.update((event,)))
    try:
        talk.engine.events(0.0)
        talk.engine.output(1 << 20)
    finally:
        sys.setprofile(None)
    return counted["call"]


def test_a_new_call_costs_no_more_beside_many_that_wait():
    costs = []
    for count in (10, 1000):
        talk = Talk()
        talk.say(b"".join(request(1 + 2 * at, is_last=True) for at in range(count)))
        costs.append(calls_of_functions(talk, request(9001, is_last=True)))
    assert costs[0] == costs[1]


@pytest.mark.parametrize("window", [0, 1 << 20], ids=["streams", "connection"])
def test_a_window_that_opens_a_little_costs_no_more_beside_many_that_wait(window):
    costs = []
    for count in (10, 1000):
        talk = Talk(PREFACE + settings([(INITIAL_WINDOW_SIZE, window)]))
        talk.say(b"".join(request(1 + 2 * at, is_last=True) for at in range(count)))
        for at in range(count):
            talk.engine.send_head(1 + 2 * at, HEAD)
            talk.engine.send(1 + 2 * at, b"x" * 20_000)
        talk.flush()
        costs.append(calls_of_functions(talk, window_update(1)))
    assert costs[0] == costs[1]


def requests_with_priorities(*, is_chain: bool, flags: int = 0) -> bytes:
    """Requests each of which depends on the one before, or on none."""
    padding = b"\0" * bool(flags)
    flags |= END_HEADERS | END_STREAM | WITH_PRIORITY
    return b"".join(
        frame(
            HEADERS,
            padding + priority(stream, is_chain=is_chain) + block(request_fields()),
            stream=stream,
            flags=flags,
        )
        for stream in range(1, 4001, 2)
    )


def priorities_of_requests(*, is_chain: bool) -> bytes:
    """Requests, and that each depends on the one before, or on none."""
    streams = range(1, 4001, 2)
    return b"".join(request(stream, is_last=True) for stream in streams) + b"".join(
        frame(PRIORITY, priority(stream, is_chain=is_chain), stream=stream)
        for stream in streams
    )


def priority(stream: int, *, is_chain: bool) -> bytes:
    """The stream on which another one depends, and a weight."""
    return (stream - 2 if is_chain and stream > 1 else 0).to_bytes(4) + b"\x10"


def seconds_of_answers(said: bytes) -> float:
    """Processor time of the answers to the last 200 of the requests in these bytes."""
    talk = Talk()
    talk.say(said)
    streams = [each.stream for each in talk.events if isinstance(each, Opened)][-200:]
    assert len(streams) == 200
    for stream in streams:
        talk.engine.send_head(stream, HEAD)
        talk.engine.send(stream, b"x")
    begin = time.process_time()
    talk.flush()
    spent = time.process_time() - begin
    assert {stream for stream, each in responses(talk.frames).items() if each.body} == set(
        streams
    )
    return spent


@pytest.mark.parametrize(
    "said",
    [
        priorities_of_requests,
        requests_with_priorities,
        partial(requests_with_priorities, flags=PADDED),
    ],
    ids=["PRIORITY", "HEADERS", "padded HEADERS"],
)
def test_an_answer_costs_no_more_where_streams_depend_on_each_other(said):
    chained, flat = (
        min(seconds_of_answers(said(is_chain=is_chain)) for _ in range(3))
        for is_chain in (True, False)
    )
    assert chained < 3 * flat + 0.001


# --- bad connections, each ended with the right code, in bounded time and memory

ENDLESS = request(1)[:4] + b"\0" + request(1)[5:]  # Without END_HEADERS.
LENGTH_OF_3 = request_fields(b"/t.T/Echo", (b"content-length", b"3"))
CALM, PROTOCOL = H2Error.ENHANCE_YOUR_CALM, H2Error.PROTOCOL_ERROR
FRAME_SIZE = H2Error.FRAME_SIZE_ERROR
NO_HEADERS = {
    "table size above the limit": b"\x3f\xe1\xff\x0f",
    "table size behind a field": b"\x82\x20",
    "index of nothing": b"\xff\x7f",
    "bad Huffman code": b"\x00\x84\xff\xff\xff\xff\x01a",
    "block that ends in a field": b"\x00\x05ab",
    "field without a value": b"\x00\x01a",
    "integer without end": b"\xff" + b"\x80" * 20,
    "integer of too many bytes": b"\x7f" + b"\x80" * 5 + b"\0",
}
FAULTS = {
    **{
        name: (
            HELLO + frame(HEADERS, said, stream=1, flags=END_HEADERS),
            H2Error.COMPRESSION_ERROR,
        )
        for name, said in NO_HEADERS.items()
    },
    "CONTINUATION without end": (
        HELLO + ENDLESS + frame(CONTINUATION, b"", stream=1) * 9,
        CALM,
    ),
    "1 MiB of metadata": (
        HELLO + ENDLESS + frame(CONTINUATION, block([(b"a", b"x" * 16000)]), stream=1) * 65,
        CALM,
    ),
    "10,000 headers": (
        HELLO + frame(HEADERS, b"\x90" * 10_000, stream=1, flags=END_HEADERS),
        CALM,
    ),
    "frame of 16 MiB announced": (HELLO + b"\xff\xff\xff\0\0\0\0\0\1", FRAME_SIZE),
    "SETTINGS of a wrong size": (HELLO + frame(SETTINGS, b"12345"), FRAME_SIZE),
    "PING on a stream": (HELLO + frame(PING, b"12345678", stream=1), PROTOCOL),
    "data of no request": (HELLO + body_frames(1, b"x"), PROTOCOL),
    "even stream": (HELLO + request(2), PROTOCOL),
    "data of an even stream": (HELLO + body_frames(2, b"x"), PROTOCOL),
    "older stream": (HELLO + request(5) + request(3), PROTOCOL),
    "push": (HELLO + request(1) + frame(PUSH, bytes(4), stream=1), PROTOCOL),
    "window of the connection overflows": (
        HELLO + window_update(2**31 - 1),
        FLOW_CONTROL_ERROR,
    ),
    "window of a stream overflows": (
        HELLO + request(1) + window_update(2**31 - 1, 1),
        FLOW_CONTROL_ERROR,
    ),
    "windows of all streams overflow": (
        HELLO + request(1) + window_update(1, 1) + settings([(INITIAL_WINDOW_SIZE, 2**31 - 1)]),
        FLOW_CONTROL_ERROR,
    ),
    "data after the end": (
        HELLO + request(1, is_last=True) + body_frames(1, b"x"),
        STREAM_CLOSED,
    ),
    "headers after the end": (
        HELLO + request(1, is_last=True) + request(1, is_last=True),
        STREAM_CLOSED,
    ),
    "data after a reset": (HELLO + request(1) + reset(1) + body_frames(1, b"x"), STREAM_CLOSED),
    "trailers that do not end": (HELLO + request(1) + request(1), PROTOCOL),
    "reset of no request": (HELLO + reset(1), PROTOCOL),
    "GOAWAY of a stream": (HELLO + frame(GOAWAY, bytes(8), stream=1), PROTOCOL),
    "GOAWAY of a wrong size": (HELLO + frame(GOAWAY, bytes(7)), FRAME_SIZE),
    "GOAWAY within a header block": (HELLO + ENDLESS + frame(GOAWAY, bytes(8)), PROTOCOL),
    "body longer than its content-length": (
        HELLO + request(1, LENGTH_OF_3) + body_frames(1, b"long"),
        PROTOCOL,
    ),
    "body shorter than its content-length": (
        HELLO + request(1, LENGTH_OF_3) + body_frames(1, b"it", is_last=True),
        PROTOCOL,
    ),
    "window of a stream that is over grows by nothing": (
        HELLO + request(1) + reset(1) + window_update(0, 1),
        PROTOCOL,
    ),
    "padding longer than a frame of a stream that is over": (
        HELLO + request(1, [], is_last=False) + frame(DATA, b"\xffabc", stream=1, flags=0x8),
        PROTOCOL,
    ),
    "window grows by nothing": (HELLO + window_update(0), PROTOCOL),
    "more data than the window": (
        HELLO + request(1) + body_frames(1, b"x" * (2 << 20)),
        None,  # Windows are given back as data is handled.
    ),
    "padding longer than the frame": (
        HELLO + request(1) + frame(DATA, b"\xffabc", stream=1, flags=0x8),
        PROTOCOL,
    ),
    "PRIORITY on itself": (HELLO + frame(PRIORITY, b"\0\0\0\1\1", stream=1), PROTOCOL),
    "PRIORITY of no stream": (HELLO + frame(PRIORITY, b"\0\0\0\1\1"), PROTOCOL),
    "request that depends on itself": (
        HELLO
        + frame(
            HEADERS,
            b"\0\x80\0\0\1\1" + block(request_fields()),
            stream=1,
            flags=END_HEADERS | WITH_PRIORITY | PADDED,
        ),
        PROTOCOL,
    ),
    "PING flood": (HELLO + frame(PING, bytes(8)) * 1000, CALM),
    "SETTINGS flood": (HELLO + settings() * 1000, CALM),
    "SETTINGS acknowledged twice": (HELLO + frame(SETTINGS, flags=ACK), PROTOCOL),
    "first frame is no SETTINGS": (PREFACE + frame(PING, bytes(8)), PROTOCOL),
    "first frame acknowledges SETTINGS": (PREFACE + frame(SETTINGS, flags=ACK), PROTOCOL),
    "empty DATA flood": (HELLO + request(1) + frame(DATA, stream=1) * 10_000, CALM),
    "PRIORITY flood": (HELLO + frame(PRIORITY, b"\0\0\0\0\1", stream=1) * 10_000, CALM),
    "unknown frames flood": (HELLO + frame(200, b"x") * 10_000, CALM),
    "rapid reset": (
        HELLO + b"".join(request(at) + reset(at) for at in range(1, 20_001, 2)),
        CALM,
    ),
    "malformed requests": (
        HELLO + b"".join(request(at, [(b":method", b"GET")]) for at in range(1, 20_001, 2)),
        CALM,
    ),
}


@pytest.mark.parametrize(("said", "code"), FAULTS.values(), ids=FAULTS)
def test_a_connection_that_breaks_the_rules_ends_with_the_right_code(said, code):
    talk = Talk(said)
    assert talk.codes(GOAWAY) == ([] if code is None else [code])
    assert bool(talk.engine.fault) == (code is not None)
    assert sum(isinstance(each, Opened) for each in talk.events) <= 1001
    assert talk.engine.waiting == 0
    if code is not None:
        assert talk.say(request(99_001)) == []
        talk.engine.ping()
        talk.engine.go_away(is_final=True)
        talk.engine.send_head(1, HEAD, is_last=True)
        assert talk.flush() == b""


def test_a_client_is_told_which_of_its_windows_is_too_large(talk):
    talk.say(request(1, is_last=True), window_update(2**31 - 1, 1))
    assert talk.codes(RST_STREAM) == [FLOW_CONTROL_ERROR]
    assert talk.codes(GOAWAY) == [FLOW_CONTROL_ERROR]


def test_a_client_of_another_protocol_gets_no_frames():
    talk = Talk(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert talk.engine.fault
    assert [each.kind for each in talk.frames] == [SETTINGS, WINDOW_UPDATE]


def test_frames_at_their_rate_are_no_flood(talk):
    for second in range(60):
        talk.say(
            *(request(at) + reset(at) for at in range(1 + 400 * second, 401 + 400 * second, 2)),
            frame(PING, bytes(8)) * 100,
            now=float(second),
        )
    assert talk.engine.fault == ""
    assert talk.is_alive()


def test_a_client_may_give_up_all_its_waiting_calls_at_once(talk):
    streams = range(1, 1800, 2)
    talk.say(*(request(each, is_last=True) for each in streams))
    talk.say(*(reset(each) for each in streams))
    assert talk.is_alive()


def growth(engine: H2Engine, said: Iterable[bytes]) -> int:
    """Bytes of memory that the last 90 of 100 pieces of a conversation cost, of which only the engine keeps anything."""
    base = 0
    for at, piece in enumerate(said):
        if at == 10:
            base = anonymous_bytes(os.getpid())
        engine.receive(piece)
        while engine.waiting:
            for event in engine.events(float(at)):
                if isinstance(event, Opened):
                    engine.send_head(event.stream, TRAILERS, is_last=True)
            engine.output(1 << 20)
    assert engine.fault == ""
    return anonymous_bytes(os.getpid()) - base


def test_unknown_settings_take_no_memory(talk):
    said = (
        settings((each, 1) for each in range(start, start + 600)) for start in range(100, 60_100, 600)
    )  # fmt: skip
    assert growth(talk.engine, said) < MIB
    assert talk.is_alive()


def test_streams_that_are_over_are_forgotten(talk):
    said = (
        b"".join(request(at, is_last=True) for at in range(start, start + 200, 2))
        for start in range(1, 20_001, 200)
    )
    assert growth(talk.engine, said) < MIB


def test_the_table_for_compressing_answers_stays_small_whatever_the_client_allows():
    talk = Talk(PREFACE + settings([(HEADER_TABLE_SIZE, 2**32 - 1)]))
    for stream in range(1, 401, 2):
        talk.say(request(stream, is_last=True))
        talk.engine.send_head(stream, ((b"x-%d" % stream, b"v" * 100),), is_last=True)
    talk.flush()
    decoder = Decoder()  # Allows 4 KiB.
    heads = [decoder.decode(each.payload) for each in talk.frames if each.kind == HEADERS]
    assert len(heads) == 200
    assert decoder.max_allowed_table_size == 4096
