"""For all commands: what is encoded is decoded again, in any pieces; garbage gives typed errors."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from cometmq.codec.fields import encode_fields
from cometmq.codec.header_binary import FULL_CODES
from cometmq.codec.headers.pull import PullRequest
from cometmq.codec.headers.send import SendRequestV2
from cometmq.codec.pull_text import pull_text
from cometmq.codec.remoting import Command, decode_command, encode_command
from cometmq.codec.send_text import END, back_text, front_text, json_text, middle_text
from cometmq.kernel import encode_requests
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


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.integers(0, 2**31 - 1)


@given(
    names=st.tuples(texts, texts, texts),
    properties=texts,
    given_numbers=st.tuples(numbers, numbers, numbers),
    command_flag=st.sampled_from([0, 2]),
    body=st.binary(),
)
def test_the_text_is_the_header_of_the_same_fields(
    names, properties, given_numbers, command_flag, body
):
    (group, topic, broker), (sys_flag, flag, opaque) = names, given_numbers
    born_ms = 1_700_000_000_000
    header = SendRequestV2(
        group, topic, 3, sys_flag, born_ms, flag, "TBW102", 8, properties, 2,
        max_reconsume_times=16, broker_name=broker,
    )  # fmt: skip
    command = Command(310, command_flag, opaque, fields=encode_fields(header), body=body)
    send = (
        front_text(310, group, topic, "TBW102", 8),
        3,
        middle_text(sys_flag, born_ms, flag, json_text(properties), ',"j":"2","l":"16"'),
        back_text(broker, command_flag),
        opaque,
        END,
        body,
    )
    assert read_back(encode_requests([send])) == read_back(encode_command(command))


offsets = st.integers(0, 2**63 - 1)


@given(
    names=st.tuples(texts, texts, texts, texts),
    first=st.tuples(offsets, offsets),
    other=st.tuples(offsets, offsets),
    max_bytes=st.none() | numbers,
    opaque=numbers,
)
def test_the_text_of_a_pull_is_the_header_of_one_from_any_offset(
    names, first, other, max_bytes, opaque
):
    group, topic, expression, broker = names

    def header(offset: int, commit_offset: int) -> PullRequest:
        return PullRequest(
            group, topic, 3, offset, 32, 7, commit_offset, 15_000, 17, expression, "TAG", max_bytes,
            broker_name=broker,
        )  # fmt: skip

    text = pull_text(header(*first))
    for offset, commit_offset in (first, other):
        fields = encode_fields(header(offset, commit_offset))
        command = Command(11, 0, opaque, fields=fields)
        pull = *text.pieces(offset, commit_offset), opaque, END, b""
        assert encode_requests([pull]) == encode_command(command)


def read_back(frame: bytes) -> tuple[int, object]:
    """What a peer reads, and the frame's size."""
    (command,) = Connection().receive_data(frame)
    return len(frame), command
