"""Bytes that RocketMQ 5.3.3 made, one by one: a record, its queue entry, a batch item, hashes, ids."""

from datetime import UTC
from zlib import crc32

from cometmq.codec.batch import BatchItem, decode_batch, encode_batch
from cometmq.codec.host import decode_host
from cometmq.codec.index_file import key_hash
from cometmq.codec.message_id import UniqueIds
from cometmq.codec.properties import decode_properties, encode_properties
from cometmq.codec.queue_entry import decode_entry, encode_entry
from cometmq.codec.record import (
    MAGIC_V1,
    body_crc,
    decode_record,
    encode_record,
)
from cometmq.codec.record_check import check_record
from cometmq.kernel import java_hash_many
from cometmq.model.java_hash import java_hash
from tests.support.hand_clock import HandClock

RECORD = bytes.fromhex(
    "0000010c daa320a7 3610a686 00000002 00000000 0000000000000000 0000000000000000 00000000"
    "000001a1fd7387da 7f000001000086e8 000001a1fd73880d 7f0000010000a3b7 00000000"
    "0000000000000000 00000005 68656c6c6f 09 546f70696354657374 00a3"
    "4d53475f524547494f4e0144656661756c74526567696f6e02554e49515f4b4559014644303030303030303030"
    "30303030303030303030303030303030303030303230364343333039343645303936393042394644393030303002"
    "434c55535445520144656661756c74436c757374657202544147530154616741024b455953014b31204b32025741"
    "495401747275650254524143455f4f4e01747275650275017602"
)

UNIQUE_ID = "FD00000000000000000000000000000206CC30946E09690B9FD90000"

BATCH_ITEM = bytes.fromhex(
    "0000003b 00000000 00000000 00000000 00000005 68656c6c6f 0020 75017602"
    "4b455953014b3102 57414954017472756502 54414753015461674102"
)


def test_the_golden_record_is_read_field_by_field_and_written_again():
    assert len(RECORD) == 268
    record = decode_record(RECORD)
    assert record[:9] == (268, MAGIC_V1, 907060870, 2, 0, 0, 0, 0, 1795253569498)
    assert decode_host(record.born_host) == "127.0.0.1:34536"
    assert record.store_timestamp == 1795253569549
    assert decode_host(record.store_host) == "127.0.0.1:41911"
    assert record[12:16] == (0, 0, b"hello", "TopicTest")
    assert record.properties() == {
        "MSG_REGION": "DefaultRegion",
        "UNIQ_KEY": UNIQUE_ID,
        "CLUSTER": "DefaultCluster",
        "TAGS": "TagA",
        "KEYS": "K1 K2",
        "WAIT": "true",
        "TRACE_ON": "true",
        "u": "v",
    }
    assert encode_record(record) == RECORD
    assert encode_properties(record.properties()) == record.property_block
    assert check_record(RECORD, 0) == 268


def test_the_golden_records_unique_id_is_what_its_producer_would_make_here():
    ip, process, loader, made = (
        UNIQUE_ID[start:end] for start, end in ((0, 32), (32, 36), (36, 44), (44, 52))
    )
    source = UniqueIds(
        ip=bytes.fromhex(ip), pid=int(process, 16), loader=int(loader, 16),
        clock=HandClock(decode_record(RECORD).born_timestamp), zone=UTC,
    )  # fmt: skip
    ours = source.next_id()
    assert (ours[:44], ours[52:]) == (UNIQUE_ID[:44], UNIQUE_ID[52:])
    assert abs(int(ours[44:52], 16) - int(made, 16)) < 1000


def test_the_golden_records_queue_entry():
    entry = bytes.fromhex("0000000000000000 0000010c 000000000027a807")
    assert decode_entry(entry) == (0, 268, 2598919)
    assert encode_entry(0, 268, java_hash("TagA")) == entry


def test_a_batch_item_is_read_and_written_as_javas():
    (item,) = decode_batch(BATCH_ITEM)
    assert item == BatchItem(0, b"hello", item.property_block)
    properties = {"u": "v", "KEYS": "K1", "WAIT": "true", "TAGS": "TagA"}
    assert decode_properties(item.property_block) == properties
    assert encode_batch([(0, b"hello", encode_properties(properties))]) == BATCH_ITEM


def test_checksums_and_hashes_are_javas():
    assert body_crc(b"hello") == crc32(b"hello") & 0x7FFFFFFF == 907060870
    texts = {"TagA": 2598919, "TopicTest#K1": 2745032, "TopicTest": -1902610879}
    assert [java_hash(text) for text in texts] == list(texts.values())
    assert java_hash_many([text.encode() for text in texts]) == list(texts.values())
    assert key_hash("TopicTest", "K1") == 2745032
