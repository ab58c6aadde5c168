"""What a message becomes on its way out."""

import copy
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, asdict, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.client.consumer.pull.received import (
    GROWTH_MAX,
    PulledMessage,
    RecordUnpacker,
    unpack,
)
from cometmq.client.producer.encoded_send import EncodedMessage, EncodedSend, SendEncoder
from cometmq.client.producer.send_attempts import header_pieces
from cometmq.client.settings import ProducerSettings
from cometmq.codec.batch import decode_batch
from cometmq.codec.compression import Compression, compress, compressed_flag, decompress
from cometmq.codec.message_id import UniqueIds
from cometmq.codec.properties import decode_properties
from cometmq.codec.record import Record, decode_record, decode_records, encode_record
from cometmq.codec.send_text import END
from cometmq.model.codes import RequestCode
from cometmq.model.errors import BombError, CodecError, MessageError
from cometmq.model.flags import COMPRESSED
from cometmq.model.message import Message, StoredMessage
from cometmq.model.namespace import NO_NAMESPACE, namespace_of
from cometmq.model.queue import MessageQueue
from tests.support.hand_clock import HandClock
from tests.support.virtual import run_virtually


def fields_of(encoded: EncodedSend) -> dict[str, str]:
    """The header's fields, as a broker reads them."""
    pieces = header_pieces(encoded, MessageQueue(encoded.topic, "broker-a", 3))
    fields: dict[str, str] = json.loads("".join(map(str, (*pieces, 17, END))))["extFields"]
    return fields


def encoder(**settings) -> SendEncoder:
    clock = HandClock()
    ids = UniqueIds(ip=bytes(4), pid=1, loader=2, clock=clock)
    return SendEncoder("PG", ProducerSettings(**settings), clock, ids)


def test_a_small_body_goes_out_as_it_is():
    encoded = encoder().pack(Message("T", b"hello", tag="A", keys=("k1", "k2"), flag=5))
    assert f'"code":{RequestCode.SEND_MESSAGE_V2},' in encoded.front
    assert (encoded.body, encoded.topic) == (b"hello", "T")
    fields = fields_of(encoded)
    properties = decode_properties(fields.pop("i").encode())
    assert properties == {
        "TAGS": "A", "KEYS": "k1 k2", "WAIT": "true", "UNIQ_KEY": encoded.message_id,
    }  # fmt: skip
    assert fields == {
        "a": "PG", "b": "T", "c": "TBW102", "d": "4", "e": "3", "f": "0", "g": "1700000000000",
        "h": "5", "n": "broker-a",
    }  # fmt: skip


def test_a_message_without_properties_says_the_same_as_one_with_them_would():
    bare = fields_of(encoder().pack(Message("T", b"", wait_store_ok=False)))
    tagged = fields_of(encoder().pack(Message("T", b"", tag='"é\\', wait_store_ok=False)))
    assert tagged["i"] == 'TAGS\x01"é\\\x02' + bare["i"]
    assert list(decode_properties(bare["i"].encode())) == ["WAIT", "UNIQ_KEY"]


def test_what_a_special_send_adds_stands_in_its_header():
    encoded = encoder(compress_over=10).pack(
        Message("T", bytes(100)), {"TRAN_MSG": "true"}, sys_flag=4, more=',"j":"2"'
    )
    fields = fields_of(encoded)
    assert (int(fields["f"]) & 5, fields["j"]) == (5, "2")
    assert decode_properties(fields["i"].encode())["TRAN_MSG"] == "true"


def test_every_message_has_an_id_of_its_own():
    made = encoder()
    assert len({made.pack(Message("T", b"")).message_id for _ in range(1000)}) == 1000


@pytest.mark.parametrize("algorithm", Compression)
def test_a_long_body_is_compressed_and_says_how(algorithm):
    body = b"again and again " * 1000
    encoded = encoder(compression=algorithm).pack(Message("T", body))
    assert len(encoded.body) < 1000
    sys_flag = int(fields_of(encoded)["f"])
    assert sys_flag == 1 | algorithm
    assert decompress(encoded.body, sys_flag, limit=len(body)) == body


def test_a_body_over_the_limit_is_refused_before_any_network():
    with pytest.raises(MessageError, match="body_size_max"):
        encoder(body_size_max=5000).pack(Message("T", b"x" * 5001))
    with pytest.raises(MessageError, match="101 bytes"):
        encoder(body_size_max=100).pack(Message("T", b"x" * 101))


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (Message("T", b"", tag="x" * 32_760), "a record has room for 32767"),
        (Message("SCHEDULE_TOPIC_XXXX", b"x"), "SCHEDULE_TOPIC_XXXX"),
    ],
    ids=["a long tag", "a topic of the system"],
)
def test_what_no_broker_takes_is_refused_before_any_network(message, why):
    with pytest.raises(MessageError, match=why):
        encoder().pack(message)


def test_a_received_message_is_no_message_to_send():
    received = StoredMessage(
        MessageQueue("T", "broker-a", 0), 0, "id", "", b"", {}, 0, "", 0, ""
    )
    with pytest.raises(MessageError, match=r"is not a Message; send Message\(topic, body\)"):
        encoder().pack(received)  # type: ignore[arg-type]  # What is tried.


def test_a_batch_holds_its_messages_with_ids_of_their_own():
    encoded = encoder().pack_batch([Message("T", b"%d" % n, tag="A") for n in range(3)])
    assert f'"code":{RequestCode.SEND_BATCH_MESSAGE},' in encoded.front
    assert fields_of(encoded)["m"] == "true"
    items = decode_batch(encoded.body)
    assert [item.body for item in items] == [b"0", b"1", b"2"]
    ids = [decode_properties(item.property_block)["UNIQ_KEY"] for item in items]
    assert encoded.message_id == ",".join(ids)
    assert len(set(ids)) == 3


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "at least one"),
        ([Message("T", b""), Message("U", b"")], "one topic"),
        ([Message("T", b"", delay_level=1)], "delay"),
        ([Message("T", b""), Message("T", b"", wait_store_ok=False)], "wait_store_ok"),
        ([Message("T", b"x" * 60)] * 10, "body_size_max"),
    ],
)
def test_a_batch_that_no_broker_would_take_is_refused(messages, reason):
    with pytest.raises(MessageError, match=reason):
        encoder(body_size_max=500).pack_batch(messages)


def test_an_encoded_message_has_the_id_in_its_properties():
    for properties, message_id in (("WAIT\1true\2UNIQ_KEY\1own\2", "own"), ("k\1v\2", "")):
        message = EncodedMessage("T", b"x", properties)
        assert encoder().pack_encoded(message).message_id == message_id


def test_a_copy_keeps_what_is_the_users_and_nothing_of_the_systems():
    old = {
        "TAGS": "A",
        "KEYS": "k1 k2",
        "UNIQ_KEY": "id",
        "DELAY": "3",
        "RETRY_TOPIC": "T",
        "own": "é",
    }
    stored = StoredMessage(
        MessageQueue("%DLQ%g", "broker-a", 0), 7, "id", "", b"x" * 20, old, 1, "", 2, "", flag=5
    )
    encoded = encoder(compress_over=10, body_size_max=30).pack_copy(stored, "T", {"of": "7"})
    fields = fields_of(encoded)
    assert (encoded.topic, encoded.message_id, fields["b"], fields["h"]) == (
        "T",
        "id",
        "T",
        "5",
    )
    assert decode_properties(fields["i"].encode()) == {
        "TAGS": "A", "KEYS": "k1 k2", "own": "é", "of": "7", "WAIT": "true", "UNIQ_KEY": "id",
    }  # fmt: skip
    assert decompress(encoded.body, int(fields["f"]), limit=30) == b"x" * 20
    for topic, large in (("no topic", 1), ("SCHEDULE_TOPIC_XXXX", 1), ("T", 2)):
        with pytest.raises(MessageError):
            encoder(body_size_max=30).pack_copy(
                replace(stored, body=b"x" * 20 * large), topic, {}
            )


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


RECORD = Record(
    queue_id=1, topic="Orders", body=b"one", property_block=b"UNIQ_KEY\1A1\2TAGS\1t\2KEYS\1k l\2mine\1x\2",
    queue_offset=7, physical_offset=1 << 40, flag=3, born_timestamp=11, store_timestamp=12,
    reconsume_times=2, prepared_offset=9, body_crc=77, born_host=bytes((127, 0, 0, 1, 0, 0, 1, 2)),
)  # fmt: skip
MEANT = unpack(decode_record(encode_record(RECORD), 0), QUEUE, body_size_max=99)


async def pulled() -> StoredMessage:
    """One that nobody has asked anything yet."""
    (message,) = (await RecordUnpacker(QUEUE, 99, 32).read(encode_record(RECORD))).messages
    assert type(message) is PulledMessage
    return message


@pytest.mark.parametrize(
    "name", [*(each.name for each in fields(StoredMessage)), "topic", "tag", "keys", "user_properties", "born_at", "stored_at"]
)  # fmt: skip
async def test_each_attribute_is_there_when_it_is_asked_for(name):
    message = await pulled()
    assert getattr(message, name) == getattr(MEANT, name)
    assert getattr(message, name) == getattr(MEANT, name)
    assert message == MEANT


@pytest.mark.parametrize(
    "same",
    [
        copy.copy, copy.deepcopy, replace, lambda message: pickle.loads(pickle.dumps(message)),
        lambda message: StoredMessage(**{each.name: getattr(message, each.name) for each in fields(message)}),
    ],
)  # fmt: skip
async def test_a_copy_is_a_message_as_any_other(same):
    made = same(await pulled())
    assert type(made) is StoredMessage
    assert made == MEANT
    assert await pulled() == made


async def test_it_looks_and_compares_as_any_other():
    assert repr(await pulled()) == repr(MEANT)
    assert asdict(await pulled()) == asdict(MEANT)
    assert await pulled() == await pulled()
    assert await pulled() != replace(MEANT, flag=4)
    assert await pulled() != object()
    with pytest.raises(TypeError):  # Its properties have no hash, as those of any other.
        hash(await pulled())


@pytest.mark.parametrize("name", ["body", "flag", "properties", "queue_offset"])
async def test_nobody_may_change_it(name):
    message = await pulled()
    with pytest.raises((FrozenInstanceError, AttributeError)):
        setattr(message, name, None)
    with pytest.raises((FrozenInstanceError, AttributeError)):
        delattr(message, name)
    assert message == MEANT


async def test_properties_and_id_are_read_without_the_rest():
    message = await pulled()
    assert (message.tag, message.keys, message.message_id) == ("t", ("k", "l"), "A1")
    assert type(message) is PulledMessage
    assert message.properties is message.properties


async def test_threads_that_ask_at_once_get_the_same():
    with ThreadPoolExecutor(8) as pool:
        for _ in range(200):
            message = await pulled()
            names = ("flag", "properties", "born_host", "message_id") * 4
            found = list(pool.map(lambda name, each=message: getattr(each, name), names))
            assert found == [getattr(MEANT, name) for name in names]
