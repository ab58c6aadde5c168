"""Real sockets on loopback: answers, errors, limits, both directions."""

import asyncio
import contextlib
import gc
import struct
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from cometmq.codec.remoting import FRAME_SIZE_MAX, JSON, ROCKETMQ, Command, encode_command
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import (
    CodecError,
    ConnectError,
    ConnectionLost,
    NetError,
    RequestError,
    RequestTimeout,
    StoreFull,
)
from cometmq.net.answer import Answer
from cometmq.net.channels import Channels
from cometmq.net.clock import SystemClock
from cometmq.net.dispatcher import PENDING_MAX, Dispatcher
from cometmq.net.server import Server
from cometmq.steps.steps import Done, called_back, elsewhere, turn_end
from cometmq.wire.connection import Connection
from tests.support.tables import answering, table_of
from tests.unit.broker.conftest import eventually

NOT_SUPPORTED = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
ECHO, REFUSE, FULL, BUG, LATER, NEVER, ASK_BACK = 9001, 9002, 9003, 9004, 9005, 9006, 9007


def refuse(command, _peer):
    raise RequestError(ResponseCode.NO_PERMISSION, "not you; ask the admin")


def full(command, _peer):
    raise StoreFull("the disk is full; free space")


def bug(command, _peer):
    raise ZeroDivisionError("/secret/path")


def later(command, _peer):
    yield from turn_end()
    return Answer(0, body=[b"la", memoryview(b"ter")])


def ask_back(_command, peer):
    answer = yield from peer.call(77, {"n": "1"}, b"ping", timeout_ms=2000)
    return Answer(0, body=b"you said " + answer.body)


class Batches:
    def __init__(self):
        self.sizes = []
        self.writes = 0

    def handle(self, reads):
        self.sizes.append(sum(len(commands) for _, commands in reads))
        for peer, commands in reads:
            for command in commands:
                peer.answer(command, Answer(0, body=command[7]))

    def written(self):
        self.writes += 1


ANSWERS = {
    ECHO: lambda command, _: Answer(0, "r", command.fields, command.body),
    REFUSE: refuse,
    FULL: full,
    BUG: bug,
    LATER: later,
    NEVER: lambda *_: None,
    ASK_BACK: ask_back,
}


@asynccontextmanager
async def serving(dispatcher, clock=None, **more):
    """A server, its address, and channels to it."""
    clock = clock or SystemClock()
    server = Server(dispatcher, clock, **more)
    port = await server.start("127.0.0.1", 0)
    channels = Channels(
        SystemClock(), on_request=lambda command, _: Answer(0, body=command.body + b"-pong")
    )
    yield server, f"127.0.0.1:{port}", channels
    await channels.close()
    await server.close()


@pytest.fixture
async def net():
    dispatcher = answering(ANSWERS)
    async with serving(dispatcher) as (server, address, channels):
        yield server, address, channels, dispatcher


@asynccontextmanager
async def connected(address, **more):
    """A plain connection."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port), **more)
    yield reader, writer
    writer.close()


@pytest.mark.parametrize("kind", [JSON, ROCKETMQ])
async def test_an_answer_comes_back_whatever_the_header_coding(net, kind):
    _, address, channels, _ = net
    answer = await channels.call(
        address, Command(ECHO, fields={"a": "ü"}, body=b"x", kind=kind)
    )
    assert (answer.code, answer.remark, answer.fields, answer.body) == (
        0,
        "r",
        {"a": "ü"},
        b"x",
    )


@pytest.mark.parametrize(
    ("code", "answer_code", "words"),
    [
        (REFUSE, ResponseCode.NO_PERMISSION, "ask the admin"),
        (FULL, ResponseCode.SERVICE_NOT_AVAILABLE, "free space"),
        (BUG, ResponseCode.SYSTEM_ERROR, "error id"),
        (123456, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "123456 not supported"),
    ],
)
async def test_errors_become_answers_with_their_code(net, code, answer_code, words):
    _, address, channels, _ = net
    answer = await channels.call(address, Command(code))
    assert answer.code == answer_code
    assert words in answer.remark
    assert "secret" not in answer.remark


async def test_requests_of_dledger_are_refused_with_one_line_in_the_log(net, caplog):
    """Its members repeat a vote or a heartbeat every second or two, for as long as the address is in dLegerPeers."""
    _, address, channels, _ = net
    body = b'{"code":200,"group":"broker-a","localId":"n1","remoteId":"n0","term":1}'
    with caplog.at_level("WARNING"):
        for code in (51001, 51002, 51002, 51004, 50000):
            answer = await channels.call(address, Command(code, body=body))
            assert answer.code == NOT_SUPPORTED
        await channels.call(address, Command(123456))
    (line,) = (record.getMessage() for record in caplog.records)
    assert "51001" in line
    assert "dLegerPeers" in line


async def test_an_answer_may_come_later_and_in_pieces_and_a_peer_can_be_asked_too(net):
    _, address, channels, _ = net
    assert (await channels.call(address, Command(LATER))).body == b"later"
    assert (await channels.call(address, Command(ASK_BACK))).body == b"you said ping-pong"


async def test_a_missing_answer_times_out_and_the_channel_lives(net):
    _, address, channels, _ = net
    with pytest.raises(RequestTimeout):
        await channels.call(address, Command(NEVER), timeout_ms=50)
    assert (await channels.call(address, Command(ECHO))).code == 0


async def test_a_closed_connection_fails_those_who_wait(net):
    server, address, channels, _ = net
    channel = await channels.get(address)
    waiter = channel.start_call(Command(NEVER), timeout_ms=5000)
    await asyncio.sleep(0.02)
    for peer in server.peers:
        peer.close()
    with pytest.raises(ConnectionLost):
        await waiter
    assert (await channels.call(address, Command(ECHO))).code == 0


async def test_nobody_there_is_an_error_that_names_the_address(net):
    _, _, channels, _ = net
    with pytest.raises(ConnectError, match=r"127\.0\.0\.1:1"):
        await channels.get("127.0.0.1:1")


async def test_a_port_in_use_is_an_error_that_names_it(net):
    server, address, _, _ = net
    with pytest.raises(NetError, match="cannot listen on"):
        await server.start("127.0.0.1", int(address.rpartition(":")[2]))


async def test_the_requests_of_one_read_are_one_batch(net):
    _, address, channels, dispatcher = net
    batches = Batches()
    dispatcher.serve(table_of(ANSWERS | {9100: batches}))
    channel = await channels.get(address)
    calls = [
        channel.start_call(Command(9100, body=bytes([n])), timeout_ms=2000) for n in range(100)
    ]
    answers = await asyncio.gather(*calls)
    assert [answer.body[0] for answer in answers] == list(range(100))
    assert sum(batches.sizes) == 100
    assert len(batches.sizes) == batches.writes < 10


@pytest.mark.parametrize("kind", ["at once", "later", "in a batch"])
async def test_an_answer_that_fits_no_frame_is_an_error_answer(net, kind):
    _, address, channels, dispatcher = net
    too_large = Answer(0, body=[bytes(9 << 20), bytes(9 << 20)])

    def soon(*_):
        yield from turn_end()
        return too_large

    class Large(Batches):
        def handle(self, reads):
            for peer, commands in reads:
                for command in commands:
                    peer.answer(command, too_large)

    kinds: dict[str, Any] = {
        "at once": lambda *_: too_large,
        "later": soon,
        "in a batch": Large(),
    }
    dispatcher.serve(table_of(ANSWERS | {9100: kinds[kind]}))
    channel = await channels.get(address)
    asked = [channel.start_call(Command(code), timeout_ms=5000) for code in (9100, ECHO, 9100)]
    first, other, last = await asyncio.gather(*asked)
    assert other.code == ResponseCode.SUCCESS
    assert first.code == last.code == ResponseCode.SYSTEM_ERROR
    assert "a frame of 1887" in first.remark
    assert "ask for less" in first.remark


async def test_a_batch_that_fails_is_answered_and_the_connection_lives(net):
    _, address, channels, dispatcher = net

    class Failing(Batches):
        def handle(self, reads):
            raise ZeroDivisionError("/secret/path")

    dispatcher.serve(table_of(ANSWERS | {9100: Failing()}))
    channel = await channels.get(address)
    asked = [channel.start_call(Command(code), timeout_ms=5000) for code in (9100, ECHO, 9100)]
    answers = await asyncio.gather(*asked)
    assert [answer.code for answer in answers] == [1, 0, 1]
    assert "secret" not in answers[0].remark


async def test_an_answer_to_a_server_that_fits_no_frame_is_an_error_answer(net):
    _, address, _, _ = net
    channels = Channels(SystemClock(), on_request=lambda *_: Answer(0, body=bytes(17 << 20)))
    answer = await channels.call(address, Command(ASK_BACK))
    assert answer.body == b"you said "
    await channels.close()


async def test_a_oneway_request_is_not_answered(net):
    _, address, _, _ = net
    async with connected(address) as (reader, writer):
        writer.write(encode_command(Command(ECHO, flag=2, opaque=1)))
        writer.write(encode_command(Command(ECHO, opaque=2, body=b"second")))
        answer = await asyncio.wait_for(reader.read(4096), 2)
        assert b'"opaque":2' in answer
        assert b'"opaque":1' not in answer


def raw_frame(header: bytes, kind: int = JSON) -> bytes:
    """A frame with a header as it is."""
    return struct.pack(">II", 4 + len(header), kind << 24 | len(header)) + header


async def test_an_unreadable_frame_is_answered_and_the_connection_lives(net):
    server, address, _, _ = net
    async with connected(address) as (reader, writer):
        writer.write(raw_frame(b'{"code":"no number","opaque":5}'))
        answer = await asyncio.wait_for(reader.read(4096), 2)
        assert b'"opaque":5' in answer
        assert b"unreadable frame" in answer
        writer.write(encode_command(Command(ECHO, opaque=6)))
        assert b'"opaque":6' in await asyncio.wait_for(reader.read(4096), 2)
        assert server.bad_frames == 1


@pytest.mark.parametrize("flag", [1, 2, 3], ids=["answer", "one-way request", "one-way answer"])
@pytest.mark.parametrize("is_json", [True, False])
async def test_an_unreadable_answer_or_oneway_request_is_not_answered(net, flag, is_json):
    """Its sender would take that for the answer to a request of its own with the same number."""
    server, address, _, _ = net
    async with connected(address) as (reader, writer):
        header = b'{"code":"no number","flag":%d,"opaque":5}' % flag
        if not is_json:
            header = struct.pack(">hbhiii", 10, 0, 479, 5, flag, 1000)
        writer.write(raw_frame(header, kind=JSON if is_json else ROCKETMQ))
        writer.write(encode_command(Command(ECHO, opaque=6)))
        answer = await asyncio.wait_for(reader.read(4096), 2)
        assert b'"opaque":6' in answer
        assert b'"opaque":5' not in answer
        assert server.bad_frames == 1


async def test_an_unreadable_answer_fails_the_request_that_waits_for_it():
    """At once, and not only at its timeout; an unreadable request of the other side, with the same number, does not."""
    told: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def answer(reader, writer):
        await reader.read(4096)
        for code, flag in ((b'"x"', b"0"), (b"0", b"1")):
            told_of = b'"opaque":1,"language":"JAVA","version":479}'
            writer.write(raw_frame(b'{"code":%s,"flag":%s,%s' % (code, flag, told_of)))
        await reader.read(4096)
        writer.write(raw_frame(b'{"code":"x","flag":1,"opaque":2}'))
        told.set_result(await reader.read())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]
        channels = Channels(SystemClock())
        assert (await channels.call(f"127.0.0.1:{port}", Command(ECHO))).code == 0
        with pytest.raises(CodecError):
            await channels.call(f"127.0.0.1:{port}", Command(ECHO))
        await channels.close()
        assert await asyncio.wait_for(told, 10) == b"", "an unreadable request was answered"


async def test_a_server_s_request_fails_at_once_if_its_answer_is_unreadable(net):
    _, address, _, dispatcher = net

    def ask(_command, peer):
        try:
            yield from peer.call(77, {}, b"", timeout_ms=60_000)
        except CodecError as error:
            return Answer(0, str(error))

    dispatcher.serve(table_of(ANSWERS | {9100: ask}))
    async with connected(address) as (reader, writer):
        writer.write(encode_command(Command(9100, opaque=77)))
        ((_, _, number, *_),) = Connection().receive_data(
            await asyncio.wait_for(reader.read(4096), 2)
        )
        writer.write(raw_frame(b'{"code":"x","flag":1,"opaque":%d}' % number))
        assert b'"opaque":77' in await asyncio.wait_for(reader.read(4096), 10)


async def test_an_oversized_frame_closes_only_its_connection(net):
    _, address, channels, _ = net
    async with connected(address) as (reader, writer):
        writer.write(struct.pack(">II", FRAME_SIZE_MAX + 1, 10))
        assert await asyncio.wait_for(reader.read(), 2) == b""
        assert (await channels.call(address, Command(ECHO))).code == 0


async def test_half_received_frames_have_a_common_bound():
    async with (
        serving(Dispatcher(), partial_size_max=100_000) as (_, address, _channels),
        connected(address) as (reader, writer),
    ):
        writer.write(struct.pack(">II", 1_000_000, 10) + bytes(500_000))
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(1), 2)


async def test_a_frame_that_does_not_get_on_ends_its_connection_and_a_slow_one_does_not(clock):
    begin = struct.pack(">II", 1_000_000, 10) + bytes(1000)
    async with (
        serving(Dispatcher(), clock) as (server, address, _),
        connected(address) as (stuck, stuck_writer),
        connected(address) as (slow, slow_writer),
    ):
        stuck_writer.write(begin)
        slow_writer.write(begin)
        for _ in range(3):
            slow_writer.write(bytes(5000))
            await asyncio.sleep(0.05)
            clock.turn(10)
            server.close_silent()
        assert await asyncio.wait_for(stuck.read(), 5) == b""
        assert len(server.peers) == 1
        assert not slow.at_eof()


async def test_of_half_frames_the_one_that_waits_longest_goes_and_not_the_last(clock):
    async with (
        serving(Dispatcher(), clock, partial_size_max=300_000) as (server, address, _),
        AsyncExitStack() as opened,
    ):
        readers = []
        for size in (200_000, 60_000, 80_000):
            reader, writer = await opened.enter_async_context(connected(address))
            writer.write(struct.pack(">II", 1_000_000, 10) + bytes(size))
            await asyncio.sleep(0.05)
            clock.turn(5)
            readers.append(reader)
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(readers[0].read(), 5) == b""
        assert len(server.peers) == 2


async def test_a_peer_that_does_not_read_is_not_read():
    handled = 0

    def big(command, _peer):
        nonlocal handled
        handled += 1
        return Answer(0, body=bytes(100_000))

    requests = 2000
    async with (
        serving(answering({1: big})) as (_, address, _channels),
        connected(address) as (reader, writer),
    ):
        for opaque in range(requests):
            writer.write(encode_command(Command(1, opaque=opaque)))
        for _ in range(100):
            await asyncio.sleep(0.002)
        assert handled < requests / 2
        received = 0
        while received < requests * 100_000:
            received += len(await asyncio.wait_for(reader.read(1 << 20), 5))
        assert handled == requests


class Slow:
    """Answers when the test says so.

    Attributes:
        waits: How each request goes on.
    """

    def __init__(self) -> None:
        self.waits: list[Done] = []

    def __call__(self, _command, _peer):
        yield from called_back(self.waits.append)
        return Answer()

    def go_on(self) -> None:
        for done in self.waits:
            done(None, None)


async def test_a_peer_with_too_many_unanswered_requests_is_told_to_wait():
    slow = Slow()
    async with serving(answering({1: slow})) as (_, address, channels):
        channel = await channels.get(address)
        waiting = [
            channel.start_call(Command(1), timeout_ms=20_000) for _ in range(PENDING_MAX + 10)
        ]
        refused = await asyncio.gather(*waiting[PENDING_MAX:])
        assert {answer.code for answer in refused} == {ResponseCode.SYSTEM_BUSY}
        slow.go_on()
        answers = await asyncio.gather(*waiting[:PENDING_MAX])
        assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}
        assert (await channel.start_call(Command(2), timeout_ms=5000)).code == NOT_SUPPORTED


async def test_waiting_requests_are_bounded_in_bytes_and_others_are_served():
    slow = Slow()
    table = answering({1: slow, ECHO: ANSWERS[ECHO]})
    async with serving(table) as (_, address, channels):
        others = Channels(SystemClock())
        channel = await channels.get(address)
        large = bytes(15 << 20)
        held = [channel.start_call(Command(1, body=large), timeout_ms=20_000) for _ in range(3)]
        refused = await channel.start_call(Command(1, body=b"small"), timeout_ms=20_000)
        assert (refused.code, len(slow.waits)) == (ResponseCode.SYSTEM_BUSY, 3)
        assert (await others.call(address, Command(ECHO), timeout_ms=5000)).code == 0
        slow.go_on()
        assert {answer.code for answer in await asyncio.gather(*held)} == {0}
        assert (await channel.start_call(Command(ECHO), timeout_ms=5000)).code == 0
        await others.close()


async def test_a_request_runs_to_its_end_when_its_connection_is_gone():
    """An administrator who closed the connection at once left no line in the log of who changed what."""
    waits: list[Done] = []
    ended: list[bool] = []

    def change(_command, peer):
        yield from called_back(waits.append)
        ended.append(peer.is_closed)
        return Answer()

    async with serving(answering({1: change})) as (server, address, _):
        async with connected(address) as (_, writer):
            writer.write(encode_command(Command(1)))
            await eventually(lambda: waits)
        await eventually(lambda: not server.peers)
        (done,) = waits
        done(None, None)
        assert ended == [True]


async def test_a_closing_server_stops_requests_that_wait_and_lets_threads_end():
    ends = []

    def slow(_command, _peer):
        try:
            yield from called_back(lambda _: None)
        finally:
            ends.append("stopped")

    def work(_command, _peer):
        yield from elsewhere(lambda: ends.append("worked"))
        ends.append("never")

    table = answering({1: slow, 2: work, ECHO: ANSWERS[ECHO]})
    async with serving(table) as (_, address, channels):
        channel = await channels.get(address)
        channel.oneway(Command(1))
        assert (await channel.start_call(Command(ECHO), timeout_ms=5000)).code == 0
        channel.oneway(Command(2))
        await asyncio.gather(channel.start_call(Command(ECHO), timeout_ms=5000))
    assert "stopped" in ends
    assert "worked" in ends


async def test_a_peer_that_has_gone_is_not_asked(net):
    server, address, channels, dispatcher = net
    asked = []

    def ask_later(_command, peer):
        yield from called_back(lambda done: peer.on_close.append(lambda _: done(None, None)))
        try:
            yield from peer.call(77, {})
        except ConnectionLost as error:
            asked.append(error)

    dispatcher.serve(table_of(ANSWERS | {9100: ask_later}))
    channel = await channels.get(address)
    channel.oneway(Command(9100))
    await channel.start_call(Command(ECHO), timeout_ms=5000)
    for peer in server.peers:
        peer.close()
    await eventually(lambda: asked)


async def test_a_silent_connection_is_closed_and_a_speaking_one_is_not(clock):
    async with (
        serving(Dispatcher(), clock) as (server, address, channels),
        connected(address) as (silent, _),
    ):
        for _ in range(4):
            await channels.call(address, Command(1))
            clock.turn(40)
            server.close_silent()
        assert await asyncio.wait_for(silent.read(), 5) == b""
        assert channels.open_addresses() == [address]


async def test_answers_come_whole_and_in_order_however_slowly_they_are_read():
    longer = answering({ECHO: lambda command, _: Answer(0, body=bytes(command.body) * 1000)})
    async with (
        serving(longer) as (_, address, _channels),
        connected(address, limit=1) as (reader, writer),
    ):
        for number in range(60):  # 24 MB of answers: more than the sockets hold.
            body = b"%04d" % number * 100
            writer.write(encode_command(Command(ECHO, opaque=number, body=body)))
            await writer.drain()
            await asyncio.sleep(0.002)
        for number in range(60):
            (size,) = struct.unpack(">I", await reader.readexactly(4))
            answer = await reader.readexactly(size)
            assert answer.endswith(b"%04d" % number * 100_000), number


async def test_a_peer_that_vanished_with_its_answer_pending_hurts_nobody(net):
    _, address, channels, _ = net
    host, port = address.split(":")
    for _ in range(20):
        _, writer = await asyncio.open_connection(host, int(port))
        for number in range(50):
            writer.write(encode_command(Command(ECHO, opaque=number, body=b"x" * 60_000)))
        writer.transport.abort()  # A reset, while the answers are on their way.
    answer = await channels.call(address, Command(ECHO, body=b"still here"))
    assert answer.body == b"still here"


@pytest.mark.parametrize("turns", range(6))
async def test_an_attempt_to_connect_whose_waiters_left_fails_in_silence(turns):
    """It is no exception that nobody has retrieved: its callers gave up."""
    loop, said = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _loop, context: said.append(context["message"]))
    channels = Channels(SystemClock())
    waits = [asyncio.ensure_future(channels.get("127.0.0.1:1")) for _ in range(2)]
    for _ in range(turns):
        await asyncio.sleep(0)
    for each in waits:
        each.cancel()
    await asyncio.wait([*waits, *channels._connecting.values()])
    await asyncio.sleep(0)
    del waits, each
    gc.collect()
    await channels.close()
    assert said == []


async def test_who_waits_to_connect_again_goes_on_when_the_address_is_given_up(clock):
    """A master that died soon after each of its starts has another one, and sends must not wait for its pause."""
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    channels = Channels(clock)
    async with server:
        for _ in range(5):
            with contextlib.suppress(ConnectionLost):
                await (await channels.get(address)).wait_closed(timeout_ms=5000)
        waiting = asyncio.create_task(channels.get(address))
        await eventually(lambda: channels._paused)
        channels.give_up(address)
        with pytest.raises(ConnectError, match="is not used any more"):
            await waiting
    channels.give_up(address)  # Nobody waits.
    await channels.close()
