"""The sans-IO connection: pieces, broken frames, who waits."""

import struct

import pytest

from cometmq.codec.remoting import FRAME_SIZE_MAX, ROCKETMQ, Command, encode_command
from cometmq.model.errors import CodecError, FrameTooLarge
from cometmq.wire.connection import Connection

FRAMES = [
    encode_command(Command(10, opaque=1, fields={"a": "é"}, body=b"body")),
    encode_command(Command(11, opaque=2, kind=ROCKETMQ, remark="words", fields={"b": "2"})),
    encode_command(Command(12, opaque=3, body=bytes(5000))),
]


def raw_frame(header, body=b"", kind=0):
    return (
        struct.pack(">II", 4 + len(header) + len(body), kind << 24 | len(header))
        + header
        + body
    )


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 50, 4096, 100_000])
def test_pieces_of_any_size_give_the_same_commands(size):
    stream = b"".join(FRAMES)
    connection = Connection[str]()
    got = []
    for start in range(0, len(stream), size):
        got += connection.receive_data(stream[start : start + size])
    assert got == Connection().receive_data(stream)
    assert [command[2] for command in got] == [1, 2, 3]
    assert connection.buffered == 0


@pytest.fixture
def connection():
    return Connection[str]()


def test_an_unreadable_header_is_skipped_and_the_rest_is_read(connection):
    broken = raw_frame(b'{"code":"ten","opaque":77}')
    commands = connection.receive_data(FRAMES[0] + broken + FRAMES[1])
    assert [command[0] for command in commands] == [10, 11]
    ((error, opaque, flag),) = connection.bad_frames
    assert flag is None
    assert isinstance(error, CodecError)
    assert opaque == 77
    assert connection.fault is None


def test_the_opaque_of_a_broken_binary_header_is_found(connection):
    header = struct.pack(">hbhiii", 10, 0, 479, 41, 3, 1000)
    assert connection.receive_data(raw_frame(header, kind=ROCKETMQ)) == []
    assert connection.bad_frames[0][1:] == (41, 3)


def test_a_header_longer_than_its_frame_is_skipped(connection):
    frame = struct.pack(">II", 14, 50) + b"0123456789"
    assert [c[0] for c in connection.receive_data(frame + FRAMES[0])] == [10]
    assert "50 bytes" in str(connection.bad_frames[0].error)


def test_a_header_beyond_the_limit_is_skipped():
    connection = Connection[str](header_size_max=100)
    command = encode_command(Command(10, opaque=9, fields={"i": "x" * 200}))
    assert connection.receive_data(command) == []
    assert connection.bad_frames[0].opaque == 9


@pytest.mark.parametrize("length", [FRAME_SIZE_MAX, 0x7FFFFFFF, 0xFFFFFFFF, 0, 3])
@pytest.mark.parametrize("with_good", [True, False])
@pytest.mark.parametrize("size", [1, 1_000_000])
def test_a_length_that_cannot_be_true_ends_the_stream_behind_the_good(length, with_good, size):
    stream = (FRAMES[0] if with_good else b"") + struct.pack(">II", length, 10)
    connection = Connection[str]()
    got = []
    for start in range(0, len(stream), size):
        got += connection.receive_data(stream[start : start + size])
    assert [command[0] for command in got] == [10] * with_good
    assert isinstance(connection.fault, FrameTooLarge if 3 < length < 1 << 31 else CodecError)


def test_answers_find_their_waiters_in_any_order(connection):
    first = connection.request(Command(1), "first", deadline=1.0)
    second = connection.request(Command(2), "second", deadline=2.0)
    (one,), (two,) = Connection().receive_data(first), Connection().receive_data(second)
    assert connection.take(two[2]) == "second"
    assert connection.take(one[2]) == "first"
    assert connection.take(one[2]) is None


def test_deadlines_give_waiters_back_once(connection):
    connection.request(Command(1), "early", deadline=1.0)
    connection.request(Command(1), "late", deadline=2.0)
    assert connection.expire(0.5) == []
    assert connection.expire(1.0) == [(1, "early")]
    assert connection.close() == [(2, "late")]
    assert connection.waiting == 0


def test_a_oneway_waits_for_nobody(connection):
    (command,) = Connection().receive_data(connection.oneway(Command(15)))
    assert Command(*command).is_oneway
    assert connection.waiting == 0


def test_opaques_in_use_are_not_given_again(connection):
    connection._opaque = 0x7FFFFFFE
    for _ in range(3):
        connection.request(Command(1), "waits", deadline=1.0)
    assert connection.waiting == 3
