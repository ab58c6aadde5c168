"""Messages of an answer taken together are the messages that each record gives by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.client.consumer.pull.received import GROWTH_MAX, RecordUnpacker, unpack
from cometmq.codec.compression import Compression, compress, compressed_flag
from cometmq.codec.record import Record, decode_records, encode_record
from cometmq.model.errors import BombError, CodecError
from cometmq.model.flags import COMPRESSED
from cometmq.model.namespace import NO_NAMESPACE, namespace_of
from cometmq.model.queue import MessageQueue
from tests.support.virtual import run_virtually

LIMIT = 1 << 20
QUEUE = MessageQueue("Orders", "b", 1)
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
    pulled = run_virtually(RecordUnpacker(queue, LIMIT, 6, namespace).read(body))
    assert pulled == (expected, None)


@pytest.mark.parametrize("cut", [1, 50, 150])
async def test_half_a_record_is_an_error(cut):
    body = 2 * encode_record(PLAIN)
    with pytest.raises(CodecError):
        await RecordUnpacker(QUEUE, LIMIT, 32).read(body[:-cut])


async def test_one_that_cannot_be_read_is_told_and_left_out():
    bad = [PLAIN._replace(property_block=b"TAGS\1\xff\2"), PLAIN._replace(sys_flag=COMPRESSED)]
    body = b"".join(map(encode_record, [PLAIN, bad[0], PLAIN, bad[1]]))
    told = []
    unpacking = RecordUnpacker(
        QUEUE, LIMIT, 32, on_unreadable=lambda record, _: told.append(record)
    )
    messages, rest = await unpacking.read(body)
    assert [message.body for message in messages] == [b"one", b"one"]
    assert rest is None
    assert [record.property_block for record in told] == [each.property_block for each in bad]
    with pytest.raises(CodecError, match="UTF-8"):
        await RecordUnpacker(QUEUE, LIMIT, 32).read(body)


def numbered(record: Record, count: int) -> bytes:
    return b"".join(encode_record(record._replace(queue_offset=at)) for at in range(count))


@pytest.mark.parametrize("record", [PLAIN, PLAIN._replace(topic="%LMQ%other"), OTHERS[8]])
@pytest.mark.parametrize("count", [32, 33, 5_000])
async def test_more_than_was_asked_for_is_left_for_the_next_answer(record, count):
    messages, rest = await RecordUnpacker(QUEUE, LIMIT, 32).read(numbered(record, count))
    assert [message.queue_offset for message in messages] == list(range(32))
    assert rest == (None if count == 32 else 32)


async def test_a_large_plain_record_is_read_whatever_its_size():
    body = numbered(PLAIN, 3) + numbered(PLAIN._replace(body=bytes(3 << 20)), 2)
    messages, rest = await RecordUnpacker(QUEUE, LIMIT, 32).read(body)
    assert [len(message.body) for message in messages] == [3, 3, 3, 3 << 20, 3 << 20]
    assert rest is None


@pytest.mark.parametrize("algorithm", Compression)
async def test_what_unpacks_to_very_much_is_left_for_the_next_answer(algorithm):
    size = 10 << 20
    bomb = PLAIN._replace(
        body=compress(bytes(size), algorithm), sys_flag=compressed_flag(0, algorithm)
    )
    messages, rest = await RecordUnpacker(QUEUE, size, 32).read(numbered(bomb, 20))
    assert rest == len(messages) == GROWTH_MAX // size
    assert {len(message.body) for message in messages} == {size}
    messages, rest = await RecordUnpacker(QUEUE, 2 * GROWTH_MAX, 32).read(numbered(bomb, 20))
    assert rest == len(messages) == 2 * GROWTH_MAX // size  # One message may be as large.


async def test_a_bomb_is_told_and_left_out():
    bomb = PLAIN._replace(
        body=compress(bytes(4 << 20)), sys_flag=compressed_flag(0, Compression.ZLIB)
    )
    told = []
    unpacking = RecordUnpacker(
        QUEUE, 3 << 20, 32, on_unreadable=lambda _, error: told.append(error)
    )
    assert await unpacking.read(numbered(bomb, 2)) == ([], None)
    assert [type(error) for error in told] == [BombError, BombError]
