"""For all values: what is encoded is decoded again; garbage gives only typed errors."""

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.codec import index_file
from cometmq.codec.batch import BatchItem, decode_batch, encode_batch
from cometmq.codec.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from cometmq.codec.compression import Compression, compress, compressed_flag, decompress
from cometmq.codec.host import decode_host, encode_host
from cometmq.codec.message_id import decode_message_id, encode_message_id
from cometmq.codec.properties import (
    decode_properties,
    encode_properties,
    find_property,
    join_blocks,
)
from cometmq.codec.queue_entry import QUEUE_ENTRY_SIZE, decode_entry, encode_entry
from cometmq.codec.record import (
    HOST_BITS,
    Record,
    decode_record,
    decode_records,
    encode_record,
)
from cometmq.codec.record_check import NoRecordError, check_record
from cometmq.kernel import WalkEnd, java_hash_many, split_frames, walk_records
from cometmq.model.errors import CodecError
from cometmq.model.java_hash import java_hash

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
HOSTS = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
WORDS = st.text(
    st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]),
    min_size=1,
    max_size=8,
)
PROPERTIES = st.dictionaries(WORDS, WORDS, max_size=6)

RECORDS = st.builds(
    Record,
    queue_id=INT32,
    flag=INT32,
    queue_offset=INT64,
    physical_offset=INT64,
    sys_flag=INT32.map(lambda flag: flag & ~HOST_BITS),
    born_timestamp=INT64,
    born_host=HOSTS,
    store_timestamp=INT64,
    store_host=HOSTS,
    reconsume_times=INT32,
    prepared_offset=INT64,
    body=st.binary(max_size=200),
    topic=st.text(st.characters(exclude_categories=["Cs"]), max_size=150),
    property_block=PROPERTIES.map(encode_properties),
)
ITEMS = st.lists(st.tuples(INT32, st.binary(max_size=50), st.binary(max_size=50)), max_size=5)


@given(st.lists(RECORDS, max_size=4))
def test_records_come_back_in_a_row(records):
    encoded = [encode_record(record) for record in records]
    decoded = decode_records(b"".join(encoded))
    assert [record[3:7] for record in decoded] == [record[3:7] for record in records]
    assert [record[8:] for record in decoded] == [record[8:] for record in records]
    assert [encode_record(record) for record in decoded] == encoded
    for record, one, content in zip(records, decoded, encoded, strict=True):
        assert one.store_size == len(content) == check_record(content, 0)
        assert one.sys_flag & ~HOST_BITS == record.sys_flag


@given(RECORDS, st.data())
def test_a_changed_byte_of_a_record_is_a_record_or_a_codec_error(record, data):
    content = bytearray(encode_record(record))
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    for read in (decode_record, decode_records, lambda buffer: check_record(buffer, 0)):
        with contextlib.suppress(CodecError):
            read(bytes(content))


@given(RECORDS.filter(lambda record: record.body), st.data())
def test_a_changed_bit_of_a_body_is_always_found(record, data):
    content = bytearray(encode_record(record))
    body_start = 72 + len(record.born_host) + len(record.store_host)
    at = body_start + data.draw(st.integers(0, len(record.body) - 1))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(NoRecordError, match="CRC"):
        check_record(content, 0)


@given(st.binary(max_size=200))
def test_garbage_is_only_ever_a_codec_error(garbage):
    readers: tuple[Callable[[bytes], object], ...] = (
        decode_record,
        decode_records,
        decode_batch,
        decode_properties,
        decode_entry,
        decode_checkpoint,
        decode_host,
        index_file.decode_header,
        index_file.decode_entry,
        lambda content: check_record(content, 0),
        lambda content: find_property(content, b"a"),
        lambda content: decode_message_id(str(content, "latin-1")),
        lambda content: encode_host(str(content, "latin-1")),
        *(
            lambda content, flag=flag: decompress(content, flag, limit=1000)
            for flag in (1, 0x101, 0x201, 0x301, 0x401)
        ),
    )
    for read in readers:
        with contextlib.suppress(CodecError):
            read(garbage)


@given(ITEMS)
def test_batches_come_back(items):
    assert decode_batch(encode_batch(items)) == [BatchItem(*item) for item in items]


@given(PROPERTIES, PROPERTIES)
def test_properties_come_back_and_the_later_block_wins(first, second):
    blocks = encode_properties(first), encode_properties(second)
    assert decode_properties(blocks[0]) == first
    joined = join_blocks(*blocks)
    assert decode_properties(joined) == first | second
    assert join_blocks(blocks[0].removesuffix(b"\x02"), blocks[1]) in (joined, joined[:-1])
    for name, value in (first | second).items():
        assert find_property(joined, name.encode()) == value


@given(st.binary(max_size=60), st.sampled_from([b"a", b"b\x01", b"\x02"]))
def test_one_property_is_what_all_of_them_say(block, name):
    with contextlib.suppress(CodecError):
        assert find_property(block, b"a") == decode_properties(block).get("a")


@given(st.lists(st.tuples(INT64, INT32, INT64), max_size=20))
def test_queue_entries_come_back(entries):
    together = b"".join(encode_entry(*entry) for entry in entries)
    places = range(0, len(together), QUEUE_ENTRY_SIZE)
    assert [decode_entry(together, at) for at in places] == entries


@given(st.builds(Checkpoint, INT64, INT64, INT64, INT64, INT64))
def test_checkpoints_come_back(checkpoint):
    assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint


@given(HOSTS, INT64)
def test_message_ids_come_back(host, offset):
    assert decode_message_id(encode_message_id(host, offset)) == (host, offset)


@given(st.ip_addresses(), st.integers(0, 65535))
def test_addresses_come_back(ip, port):
    text = f"[{ip}]:{port}" if ip.version == 6 else f"{ip}:{port}"
    assert encode_host(decode_host(encode_host(text))) == encode_host(text)


@given(st.binary(max_size=2000), st.sampled_from(Compression))
def test_bodies_come_back_from_compression(body, algorithm):
    packed = compress(body, algorithm)
    assert decompress(packed, compressed_flag(0, algorithm), limit=len(body)) == body


@given(st.lists(st.text(max_size=300) | st.text("abc#\0", max_size=70)))
def test_many_hashes_are_the_hashes_of_each(texts):
    assert java_hash_many([text.encode() for text in texts]) == [
        java_hash(text) for text in texts
    ]


def frames_in_pieces(stream, sizes):
    """The frames' bytes of a stream that arrives in pieces, and whether it ended in an error."""
    found, kept = [], b""
    for size in [*sizes, len(stream)]:
        kept, stream = kept + stream[:size], stream[size:]
        try:
            while True:
                frames, position = split_frames(kept, 0, 300)
                found += [(kind, kept[a:b], kept[b:c]) for kind, a, b, c in frames]
                kept = kept[position:]
                if not frames:
                    break
        except CodecError:
            return found, True
    return found, False


def frame(kind, header, body):
    length = 4 + len(header) + len(body)
    return length.to_bytes(4) + bytes([kind]) + len(header).to_bytes(3) + header + body


FRAMES = st.builds(
    frame, st.integers(0, 255), st.binary(max_size=20), st.binary(max_size=20)
) | st.binary(min_size=8, max_size=12)


@given(st.lists(FRAMES, max_size=6), st.lists(st.integers(0, 40), max_size=12))
def test_frames_are_the_same_in_any_pieces(frames, sizes):
    stream = b"".join(frames)
    at_once = frames_in_pieces(stream, [])
    assert frames_in_pieces(stream, sizes) == at_once
    assert frames_in_pieces(stream, [1] * len(stream)) == at_once


@given(st.lists(RECORDS, max_size=4), st.binary(max_size=30))
def test_a_walk_finds_every_record_and_stops_at_what_is_none(records, tail):
    encoded = [encode_record(record) for record in records]
    content = b"".join(encoded) + tail
    walked, position, why = walk_records(content, 0, len(content))
    assert [size for _, size, _ in walked] == [len(one) for one in encoded]
    assert position == len(content) - len(tail)
    assert (why is WalkEnd.WHOLE) == (not tail)
