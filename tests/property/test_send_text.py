"""The header of a send or a pull as text is what the careful encoder makes of the same fields."""

from hypothesis import given
from hypothesis import strategies as st

from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.pull import PullRequest
from cometmq.codec.headers.send import SendRequestV2
from cometmq.codec.pull_text import pull_text
from cometmq.codec.remoting import Command, encode_command
from cometmq.codec.send_text import END, back_text, front_text, json_text, middle_text
from cometmq.kernel import encode_requests
from cometmq.wire.connection import Connection

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
