"""Messages of an answer taken together are the messages that each record gives by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.client.namespace import NO_NAMESPACE, namespace_of
from cometmq.client.received import unpack, unpack_all
from cometmq.codec.compression import Compression, compress, compressed_flag
from cometmq.codec.record import Record, decode_records, encode_record
from cometmq.model.errors import CodecError
from cometmq.model.flags import COMPRESSED
from cometmq.model.queue import MessageQueue

LIMIT = 1 << 20
PLAIN = Record(
    queue_id=1, topic="Orders", body=b"one", property_block=b"UNIQ_KEY\1A1\2TAGS\1t\2"
)
OTHERS = [
    PLAIN,
    PLAIN._replace(property_block=b""),
    PLAIN._replace(property_block=b"TAGS\1t"),
    PLAIN._replace(property_block="TAGS\1ü\2".encode()),
    PLAIN._replace(property_block=b"RETRY_TOPIC\1Orders\2"),
    PLAIN._replace(topic="%LMQ%other"),
    PLAIN._replace(topic="L" * 200),
    PLAIN._replace(born_host=bytes(20)),
    PLAIN._replace(body=compress(b"x" * 5000), sys_flag=compressed_flag(0, Compression.ZLIB)),
    PLAIN._replace(sys_flag=8),
]
BODIES = st.lists(st.sampled_from(OTHERS), max_size=6).map(
    lambda records: b"".join(
        encode_record(each._replace(queue_offset=at, physical_offset=at * 1000))
        for at, each in enumerate(records)
    )
)
QUEUES = st.sampled_from(["Orders", "%RETRY%group", "ns%Orders", "Ö"]).map(
    lambda topic: MessageQueue(topic, "b", 1)
)


@given(BODIES, QUEUES, st.sampled_from([NO_NAMESPACE, namespace_of("ns")]))
def test_together_or_one_by_one(body, queue, namespace):
    rules = {"body_size_max": LIMIT, "namespace": namespace}
    expected = [unpack(record, queue, **rules) for record in decode_records(body)]
    assert unpack_all(body, queue, **rules) == expected


@pytest.mark.parametrize("cut", [1, 50, 150])
def test_half_a_record_is_an_error(cut):
    body = 2 * encode_record(PLAIN)
    with pytest.raises(CodecError):
        unpack_all(body[:-cut], MessageQueue("Orders", "b", 1), body_size_max=LIMIT)


def test_one_that_cannot_be_read_is_told_and_left_out():
    bad = [PLAIN._replace(property_block=b"TAGS\1\xff\2"), PLAIN._replace(sys_flag=COMPRESSED)]
    body = b"".join(map(encode_record, [PLAIN, bad[0], PLAIN, bad[1]]))
    told = []
    queue = MessageQueue("Orders", "b", 1)
    messages = unpack_all(
        body, queue, body_size_max=LIMIT, on_unreadable=lambda record, _: told.append(record)
    )
    assert [message.body for message in messages] == [b"one", b"one"]
    assert [record.property_block for record in told] == [each.property_block for each in bad]
    with pytest.raises(CodecError, match="UTF-8"):
        unpack_all(body, queue, body_size_max=LIMIT)
