"""The gRPC server and the client of Google's `grpcio`, over real sockets."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing

import grpc
import pytest

from cometmq.net.tls import ServerFiles, ServerTls, TlsMode
from cometmq.proxy.grpc.standard_messages import (
    HealthCheckRequest,
    HealthCheckResponse,
    ReflectionRequest,
    ReflectionResponse,
)
from tests.support import certificates
from tests.support.grpc_place import GrpcPlace
from tests.support.processes import wait_until

MIB = 1 << 20
ROOMY = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", 1 << 20),
]
SECONDS_MAX = 60


@pytest.fixture
def place() -> Iterator[GrpcPlace]:
    with GrpcPlace() as made:
        yield made


@pytest.fixture
def channel(place: GrpcPlace) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(f"127.0.0.1:{place.port}", options=ROOMY) as made:
        yield made


def test_messages_of_all_sizes_come_back(channel):
    echo = channel.unary_unary("/t.T/Echo")
    for size in (0, 1, 1000, 16_379, 16_384, 70_000, 20 * MIB):
        assert echo(b"m" * size, timeout=SECONDS_MAX) == b"m" * size


def test_compressed_messages_are_read(channel):
    echo = channel.unary_unary("/t.T/Echo")
    text = b"compress me " * 10_000
    assert echo(text, compression=grpc.Compression.Gzip, timeout=SECONDS_MAX) == text
    with pytest.raises(grpc.RpcError) as refused:
        echo(text, compression=grpc.Compression.Deflate, timeout=SECONDS_MAX)
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_a_stream_of_48_mib_arrives_while_a_small_call_goes_past_it(place, channel):
    with grpc.insecure_channel(f"127.0.0.1:{place.port}", options=ROOMY) as other:
        stream = channel.unary_stream("/t.T/Many")(b"48 1048576", timeout=SECONDS_MAX)
        assert other.unary_unary("/t.T/Echo")(b"small", timeout=SECONDS_MAX) == b"small"
        assert channel.unary_unary("/t.T/Echo")(b"small", timeout=SECONDS_MAX) == b"small"
        assert [len(each) for each in stream] == [MIB] * 48
    assert place.ask(lambda: sum(each.engine.unsent for each in place.server.peers)) == 0


def test_a_conversation_goes_to_and_fro(place, channel):
    first, second = threading.Event(), threading.Event()

    def say() -> Iterator[bytes]:
        yield b"one"
        first.wait(SECONDS_MAX)
        yield b"two"
        second.wait(SECONDS_MAX)

    call = channel.stream_stream("/t.T/Talk")(say(), timeout=SECONDS_MAX)
    assert next(call) == b"ONE"
    first.set()
    assert next(call) == b"TWO"
    second.set()
    assert list(call) == []
    assert call.code() == grpc.StatusCode.OK
    assert place.services.talks[0].events == ["one", "two", "half closed", "closed"]


def test_errors_have_their_codes_and_texts(channel):
    cases = {
        "/t.T/Refuse": (grpc.StatusCode.FAILED_PRECONDITION, "not now: 100 % später"),
        "/t.T/Fail": (grpc.StatusCode.INTERNAL, "cannot do x"),
        "/t.T/Other": (grpc.StatusCode.UNIMPLEMENTED, "there is no method /t.T/Other"),
    }
    for path, (code, text) in cases.items():
        with pytest.raises(grpc.RpcError) as failed:
            channel.unary_unary(path)(b"x", timeout=SECONDS_MAX)
        assert failed.value.code() == code
        assert text in failed.value.details()


def test_metadata_above_the_limit_ends_one_call(channel):
    echo = channel.unary_unary("/t.T/Echo")
    assert echo(b"a", timeout=SECONDS_MAX) == b"a"
    with pytest.raises(grpc.RpcError) as refused:
        echo(b"a", metadata=[("x-mq-client-id", "c" * 20_000)], timeout=SECONDS_MAX)
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert echo(b"a", timeout=SECONDS_MAX) == b"a"


def test_a_deadline_and_a_cancelled_call_end_at_the_server(place, channel):
    wait = channel.unary_unary("/t.T/Wait")
    with pytest.raises(grpc.RpcError) as late:
        wait(b"", timeout=0.3)
    assert late.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    wait_until(lambda: place.services.closed == 1, seconds=SECONDS_MAX, what="the calls")
    call = wait.future(b"")
    wait_until(lambda: place.services.waiting, seconds=SECONDS_MAX, what="the calls")
    call.cancel()
    wait_until(lambda: place.services.closed == 2, seconds=SECONDS_MAX, what="the calls")
    assert place.services.waiting == []


def test_1000_calls_wait_on_a_connection_while_others_are_answered(place, channel):
    wait, echo = channel.unary_unary("/t.T/Wait"), channel.unary_unary("/t.T/Echo")
    calls = [wait.future(b"", timeout=SECONDS_MAX) for _ in range(1000)]
    wait_until(
        lambda: len(place.services.waiting) == 1000, seconds=SECONDS_MAX, what="the calls"
    )
    assert len(place.server.peers) == 1
    for _ in range(50):
        assert echo(b"beside", timeout=SECONDS_MAX) == b"beside"

    def answer_all() -> None:
        for each in list(place.services.waiting):
            each.answer(b"at last")
            each.finish()

    place.ask(answer_all)
    assert {each.result(SECONDS_MAX) for each in calls} == {b"at last"}


def test_a_server_that_closes_ends_1000_waiting_calls_without_an_error(place, channel):
    wait = channel.unary_stream("/t.T/Wait")
    calls = [wait(b"", timeout=SECONDS_MAX) for _ in range(1000)]
    wait_until(
        lambda: len(place.services.waiting) == 1000, seconds=SECONDS_MAX, what="the calls"
    )
    place.stop_soon()
    assert [list(each) for each in calls] == [[]] * 1000
    assert {each.code() for each in calls} == {grpc.StatusCode.OK}


def test_tools_find_health_and_services(channel):
    check = channel.unary_unary("/grpc.health.v1.Health/Check")
    for name in ("", "t.T"):
        asked = HealthCheckRequest(service=name).SerializeToString()
        assert HealthCheckResponse.FromString(check(asked, timeout=SECONDS_MAX)).status == 1
    with pytest.raises(grpc.RpcError) as unknown:
        check(HealthCheckRequest(service="x").SerializeToString(), timeout=SECONDS_MAX)
    assert unknown.value.code() == grpc.StatusCode.NOT_FOUND
    with pytest.raises(grpc.RpcError) as broken:
        check(b"\xff", timeout=SECONDS_MAX)
    assert broken.value.code() == grpc.StatusCode.INVALID_ARGUMENT

    for version in ("v1", "v1alpha"):
        ask = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
        )
        questions = [
            ReflectionRequest(list_services=""),
            ReflectionRequest(file_containing_symbol="grpc.health.v1.Health.Watch"),
            ReflectionRequest(file_by_filename="none.proto"),
        ]
        listed, described, unknown_file = (
            ReflectionResponse.FromString(each)
            for each in ask(
                iter([each.SerializeToString() for each in questions]), timeout=SECONDS_MAX
            )
        )
        assert [each.name for each in listed.list_services_response.service] == [
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "t.T",
        ]
        assert len(described.file_descriptor_response.file_descriptor_proto) == 1
        assert unknown_file.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]


def test_a_watch_of_health_is_told_that_the_server_closes(place, channel):
    watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=SECONDS_MAX)
    assert HealthCheckResponse.FromString(next(watch)).status == 1
    place.stop_soon()
    assert HealthCheckResponse.FromString(next(watch)).status == 2
    with pytest.raises(grpc.RpcError) as ended:
        next(watch)
    assert ended.value.code() == grpc.StatusCode.UNAVAILABLE


def test_tls_by_alpn_and_cleartext_share_a_permissive_port(tmp_path):
    ca = certificates.authority(tmp_path)
    cert, key = certificates.signed(ca, "server")
    files = ServerFiles(str(cert), str(key), protocols=("h2",))
    with GrpcPlace(make_tls=lambda: ServerTls(TlsMode.permissive, files)) as place:
        address = f"127.0.0.1:{place.port}"
        trusted = grpc.ssl_channel_credentials(ca.read_bytes())
        with grpc.secure_channel(address, trusted, options=ROOMY) as channel:
            echo = channel.unary_unary("/t.T/Echo")
            assert echo(b"m" * 3 * MIB, timeout=SECONDS_MAX) == b"m" * 3 * MIB
            assert (
                sum(
                    map(
                        len,
                        channel.unary_stream("/t.T/Many")(b"48 1048576", timeout=SECONDS_MAX),
                    )
                )
                == 48 * MIB
            )
        with grpc.insecure_channel(address) as channel:
            assert channel.unary_unary("/t.T/Echo")(b"clear", timeout=SECONDS_MAX) == b"clear"
        context = ssl.create_default_context(cafile=str(ca))
        context.set_alpn_protocols(["http/1.1", "h2"])
        with (
            closing(socket.create_connection(("127.0.0.1", place.port), SECONDS_MAX)) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as wrapped,
        ):
            assert wrapped.selected_alpn_protocol() == "h2"


def test_a_browser_gets_an_answer_it_can_show(place):
    with closing(socket.create_connection(("127.0.0.1", place.port), SECONDS_MAX)) as browser:
        browser.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        while browser.recv(4096):
            pass  # The server closes the connection; that is all.
