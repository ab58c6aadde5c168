"""For all commands: what is encoded is decoded again, in any pieces; garbage gives typed errors."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from cometmq.codec.header_binary import FULL_CODES
from cometmq.codec.remoting import Command, decode_command, encode_command
from cometmq.model.errors import CodecError
from cometmq.wire.connection import Connection

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
TEXT = st.text(max_size=30)
COMMANDS = st.builds(
    Command,
    # In 16 bits some mean others, which are larger.
    code=st.integers(0, 0x7FFF).filter(lambda code: code not in FULL_CODES),
    flag=st.integers(0, 3),
    opaque=INT32,
    language=st.integers(0, 13),
    version=st.integers(0, 0x7FFF),
    remark=st.none() | st.text(min_size=1, max_size=30),
    fields=st.dictionaries(st.text(min_size=1, max_size=10), TEXT, max_size=5),
    body=st.binary(max_size=200),
    kind=st.integers(0, 1),
)


@given(st.lists(COMMANDS, max_size=5), st.lists(st.integers(1, 300), max_size=20))
def test_what_is_encoded_is_decoded_in_any_pieces(commands, sizes):
    stream = b"".join(map(encode_command, commands))
    connection = Connection[object]()
    got = []
    for size in sizes:
        got += connection.receive_data(stream[:size])
        stream = stream[size:]
    got += connection.receive_data(stream)
    assert [Command(*command) for command in got] == commands
    assert connection.bad_frames == []


@given(st.integers(0, 3), st.binary(max_size=200))
def test_a_garbage_header_gives_only_a_codec_error(kind, header):
    with contextlib.suppress(CodecError):
        decode_command(kind, header, b"")


@given(st.lists(st.binary(max_size=100), max_size=20))
def test_garbage_never_raises_from_a_connection(pieces):
    connection = Connection[object]()
    for piece in pieces:
        connection.receive_data(piece)
        if connection.fault is not None:
            break


@given(COMMANDS, st.data())
def test_a_changed_byte_gives_commands_or_typed_faults(command, data):
    frame = bytearray(encode_command(command))
    at = data.draw(st.integers(0, len(frame) - 1))
    frame[at] = data.draw(st.integers(0, 255))
    connection = Connection[object]()
    connection.receive_data(bytes(frame))
    assert all(isinstance(bad.error, CodecError) for bad in connection.bad_frames)
