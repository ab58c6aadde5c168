"""Offsets by queue: objects as keys, as fastjson writes them, and the list that other admins cause."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.codec.bodies.queue_offsets import decode_queue_offsets, encode_queue_offsets
from cometmq.model.errors import CodecError
from cometmq.model.queue import MessageQueue

QUEUES = st.builds(MessageQueue, st.text(max_size=9), st.text(max_size=9), st.integers(0, 99))


@given(st.dictionaries(QUEUES, st.integers(-1, 1 << 60)), st.booleans())
def test_what_is_written_is_read(offsets, is_pretty):
    assert decode_queue_offsets(encode_queue_offsets(offsets, is_pretty=is_pretty)) == offsets


def test_a_queue_is_an_object_as_key():
    body = encode_queue_offsets({MessageQueue("T", "b", 1): 7})
    assert body == b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:7}}'


def test_the_list_form_is_read_too():
    body = b'{"offsetTable":[{"brokerName":"b","offset":7,"queueId":1,"topic":"T"}]}'
    assert decode_queue_offsets(body) == {MessageQueue("T", "b", 1): 7}


def test_an_empty_table_is_one():
    assert decode_queue_offsets("{}") == {}


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b'{"offsetTable":5}', b'{"offsetTable":{"T":5}}',
        b'{"offsetTable":{{"topic":"T"}:5}}',
        b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:"x"}}',
        b'{"offsetTable":[{"topic":"T"}]}',
    ],
)  # fmt: skip
def test_what_is_no_table_is_a_codec_error(body):
    with pytest.raises(CodecError):
        decode_queue_offsets(body)


@given(st.binary(max_size=60))
def test_garbage_gives_offsets_or_a_codec_error(body):
    with contextlib.suppress(CodecError):
        decode_queue_offsets(body)
