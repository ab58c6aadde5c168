"""The smaller layouts: hosts, properties, batches, queue entries, index files, checkpoints."""

from array import array
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import pytest

from cometmq.codec import index_file
from cometmq.codec.batch import decode_batch, encode_item
from cometmq.codec.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from cometmq.codec.host import decode_host, encode_host
from cometmq.codec.message_id import (
    UniqueIds,
    decode_message_id,
    encode_message_id,
)
from cometmq.codec.properties import (
    decode_properties,
    encode_properties,
    find_property,
    join_blocks,
)
from cometmq.codec.queue_entry import (
    BLANK_ENTRY,
    QueueEntry,
    decode_entry,
    encode_entry,
)
from cometmq.kernel import insert_keys
from cometmq.model.errors import CodecError
from tests.support.hand_clock import HandClock


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("127.0.0.1:10911", "7f00000100002a9f"),
        ("0.0.0.0:0", "0000000000000000"),
        ("255.255.255.255:65535", "ffffffff0000ffff"),
        ("[fd00::2]:41911", "fd0000000000000000000000000000020000a3b7"),
        ("[::1]:1", "0000000000000000000000000000000100000001"),
    ],
)
def test_addresses_have_these_bytes(text, content):
    assert encode_host(text).hex() == content
    assert decode_host(bytes.fromhex(content)) == text


def test_ipv6_is_read_without_brackets_too():
    assert encode_host("fd00::2:80") == encode_host("[fd00::2]:80")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host:1",
        "1.2.3.4",
        "1.2.3.4:",
        "1.2.3.4:65536",
        "1.2.3:5",
        "[::g]:1",
        "1.2.3.4:²",
        "1.2.3.4:" + "9" * 5000,
    ],
)
def test_what_is_no_address_is_refused_by_name(text):
    with pytest.raises(CodecError, match=r"is not an address"):
        encode_host(text)


def test_a_host_of_another_length_is_refused():
    with pytest.raises(CodecError, match="9 bytes"):
        decode_host(bytes(9))


def test_properties_keep_their_order_and_the_later_wins():
    assert encode_properties({"u": "v", "KEYS": "K1"}) == b"u\x01v\x02KEYS\x01K1\x02"
    assert decode_properties(b"a\x011\x02b\x012\x02a\x013\x02") == {"a": "3", "b": "2"}
    assert encode_properties({}) == b""
    assert decode_properties(b"") == {}


@pytest.mark.parametrize(
    ("block", "properties"),
    [
        (b"a\x011", {"a": "1"}),  # Old writers end without a separator.
        (b"nothing\x02a\x011\x02", {"a": "1"}),
        (b"\x01v\x02a\x011\x02", {"a": "1"}),
        (b"a\x011\x02a\x01\x02", {"a": "1"}),
        (b"a\x01x\x01y\x02", {"a": "x\x01y"}),
        (b"\x02\x02\x02", {}),
    ],
)
def test_pieces_that_are_no_property_are_passed_over(block, properties):
    assert decode_properties(block) == properties
    assert find_property(block, b"a") == properties.get("a")


@pytest.mark.parametrize(
    "properties",
    [
        {"": "v"},
        {"n": ""},
        {"a": "1", "n\x01": "v"},
        {"n": "v\x02w"},
        {"\x01": "\x02"},
        {"n": "\ud800"},
        {"n": "v" * 32765},
    ],
)
def test_properties_that_cannot_be_stored_are_refused(properties):
    with pytest.raises(CodecError, match=r"property|properties"):
        encode_properties(properties)


def test_the_longest_properties_fit():
    assert len(encode_properties({"n": "v" * 32764})) == 32767


def test_properties_that_are_not_utf8_are_refused():
    for read in (decode_properties, lambda block: find_property(block, b"a")):
        with pytest.raises(CodecError, match="UTF-8"):
            read(b"a\x01\xff\x02")


def test_one_property_is_found_without_the_others():
    block = encode_properties({"XTAGS": "no", "TAGS": "ä", "k": "TAGS", "TAGSX": "no"})
    assert find_property(block, b"TAGS") == "ä"
    assert find_property(block, b"TAG") is None
    assert find_property(join_blocks(block, b"TAGS\x01b\x02"), b"TAGS") == "b"


def test_blocks_are_joined_with_one_separator_between_them():
    assert join_blocks(b"a\x011", b"b\x012\x02") == b"a\x011\x02b\x012\x02"
    assert join_blocks(b"a\x011\x02", b"b\x012\x02") == b"a\x011\x02b\x012\x02"
    assert join_blocks(b"", b"b\x012") == b"b\x012"
    assert join_blocks(b"a\x011", b"") == b"a\x011"


ITEM = encode_item(3, b"body", b"a\x011\x02")


def test_every_cut_of_a_batch_is_refused():
    for size in range(1, len(ITEM)):
        with pytest.raises(CodecError, match="item at byte 0"):
            decode_batch(ITEM[:size])
        with pytest.raises(CodecError, match=f"item at byte {len(ITEM)}"):
            decode_batch(ITEM + ITEM[:size])


@pytest.mark.parametrize(
    ("at", "content"),
    [
        (0, "00000001"),
        (0, "7fffffff"),
        (16, "ffffffff"),
        (16, "7fffffff"),
        (24, "ffff"),
        (24, "7fff"),
    ],
)
def test_a_batch_whose_sizes_do_not_fit_is_refused(at, content):
    broken = bytearray(ITEM)
    broken[at : at + len(content) // 2] = bytes.fromhex(content)
    with pytest.raises(CodecError, match="item at byte 0"):
        decode_batch(bytes(broken))


def test_a_batch_item_has_room_for_32767_bytes_of_properties():
    encode_item(0, b"", bytes(32767))
    with pytest.raises(CodecError, match="32768"):
        encode_item(0, b"", bytes(32768))


def test_queue_entries_come_back_alone_and_together():
    entries = [(0, 268, 2598919), (268, 100, -1), ((1 << 63) - 1, 0x7FFFFFFF, -(1 << 63))]
    together = b"".join(encode_entry(*entry) for entry in entries)
    assert [decode_entry(together, at) for at in (0, 20, 40)] == entries
    assert decode_entry(memoryview(BLANK_ENTRY)) == QueueEntry(0, 0x7FFFFFFF, 0)


def test_half_a_queue_entry_is_refused():
    with pytest.raises(CodecError, match="at byte 20"):
        decode_entry(bytes(30), 20)


def test_an_index_file_is_laid_out_as_in_java():
    assert index_file.index_file_size() == 420_000_040
    assert index_file.slot_position(32) == 40 + 32 * 4
    assert index_file.entry_position(1, 1000) == 40 + 4000 + 20
    header = index_file.IndexHeader(1, 2, 3, 4, 5, 6)
    assert index_file.decode_header(index_file.encode_header(header)) == header
    entry = index_file.IndexEntry(2745032, 1 << 40, 7, 2)
    assert index_file.decode_entry(b"xx" + index_file.encode_entry(entry), 2) == entry
    with pytest.raises(CodecError, match="header"):
        index_file.decode_header(bytes(39))
    with pytest.raises(CodecError, match="at byte 1 of 20"):
        index_file.decode_entry(bytes(20), 1)


def test_a_key_hash_is_never_negative():
    assert index_file.key_hash("TopicTest", "K1") == 2745032
    # Java's hash of "T#DWIECHC" is Integer.MIN_VALUE, whose abs() stays negative.
    assert index_file.key_hash("T", "DWIECHC") == 0


@pytest.mark.parametrize(
    ("store", "begin", "seconds"),
    [(5999, 1000, 4), (1000, 0, 0), (500, 1000, 0), (1 << 62, 1, 0x7FFFFFFF)],
)
def test_an_index_entry_counts_seconds_from_the_files_begin(store, begin, seconds):
    slots = memoryview(array("i", [0]))
    made, _ = insert_keys(slots, 1, array("q", [5, 0, store]), begin, bytearray(1), 0, 1)
    assert index_file.decode_entry(made, 0).seconds == seconds


def test_a_checkpoint_has_4096_bytes_and_comes_back():
    checkpoint = Checkpoint(5000, 4000, 900, 7, 8)
    content = encode_checkpoint(checkpoint)
    assert len(content) == 4096
    assert decode_checkpoint(content) == checkpoint
    assert decode_checkpoint(content[:40]) == checkpoint
    with pytest.raises(CodecError, match="39 bytes"):
        decode_checkpoint(content[:39])


def test_recovery_starts_three_seconds_before_the_least_time():
    assert Checkpoint(5000, 4000, 900).recovery_timestamp(with_index=False) == 1000
    assert Checkpoint(5000, 4000, 900).recovery_timestamp(with_index=True) == 900
    assert Checkpoint(5000, 2000, 900).recovery_timestamp(with_index=True) == 0


def ms(year: int, month: int, day: int, *time: int, zone: tzinfo = UTC) -> int:
    hour, minute, second = (*time, 0, 0, 0)[:3]
    return int(datetime(year, month, day, hour, minute, second, tzinfo=zone).timestamp() * 1000)


def ids(clock: HandClock, *, ip: bytes = b"\x7f\0\0\1", zone=UTC) -> UniqueIds:
    return UniqueIds(ip=ip, pid=0x10ABC, loader=0x1DEADBEEF, clock=clock, zone=zone)


@pytest.mark.parametrize(
    ("host", "offset", "message_id"),
    [
        ("127.0.0.1:41911", 268, "7F0000010000A3B7000000000000010C"),
        ("[fd00::2]:41911", 268, "FD0000000000000000000000000000020000A3B7000000000000010C"),
    ],
)
def test_offset_ids_come_back(host, offset, message_id):
    assert encode_message_id(encode_host(host), offset) == message_id
    assert decode_message_id(message_id) == (encode_host(host), offset)
    assert decode_message_id(message_id.lower()) == (encode_host(host), offset)


@pytest.mark.parametrize(
    "text",
    ["", "7F", "7F0000010000A3B7000000000000010", "X" * 32, "7F 0" * 8, "é" * 32, "0" * 40],
)
def test_what_is_no_id_is_refused_by_name(text):
    with pytest.raises(CodecError, match="is not a message id"):
        decode_message_id(text)


def test_an_offset_id_of_nonsense_is_refused():
    with pytest.raises(CodecError, match="5 bytes"):
        encode_message_id(b"12345", 0)
    with pytest.raises(CodecError, match="does not fit"):
        encode_message_id(bytes(8), 1 << 63)


def test_a_unique_id_holds_ip_process_loader_time_and_counter():
    clock = HandClock(ms(2026, 11, 1, 0, 0, 1))
    source = ids(clock)
    assert source.next_id() == "7F000001" + "0ABC" + "DEADBEEF" + "000003E8" + "0000"
    assert source.next_id().endswith("0001")
    assert len(ids(clock, ip=bytes(16)).next_id()) == 56
    with pytest.raises(CodecError, match="5 bytes"):
        ids(clock, ip=bytes(5))


def test_time_counts_from_the_month_in_the_given_zone():
    zone = ZoneInfo("Asia/Shanghai")
    source = ids(HandClock(ms(2026, 12, 1, 0, 0, 2, zone=zone)), zone=zone)
    assert source.next_id()[20:28] == "000007D0"


def test_a_new_month_moves_the_base_and_a_clock_set_back_gives_0():
    clock = HandClock(ms(2026, 12, 31, 23, 59, 59))
    source = ids(clock)
    assert int(source.next_id()[20:28], 16) == 31 * 86_400_000 - 1000
    clock.turn(1)
    assert source.next_id()[20:28] == "00000000"
    clock.turn(-0.005)
    assert source.next_id()[20:28] == "00000000"


def test_65536_ids_of_one_millisecond_differ_between_threads_too():
    source = ids(HandClock(ms(2026, 11, 21)))
    with ThreadPoolExecutor(4) as pool:
        pieces = pool.map(lambda _: [source.next_id() for _ in range(16384)], range(4))
        assert len({one for piece in pieces for one in piece}) == 65536


def test_without_a_zone_the_machines_is_used():
    now = datetime(2026, 11, 21, 12, tzinfo=UTC).astimezone()
    clock = HandClock(int(now.timestamp() * 1000))
    assert ids(clock, zone=None).next_id() == ids(clock, zone=now.tzinfo).next_id()
