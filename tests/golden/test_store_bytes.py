"""Every byte of the two stores that Java wrote: records, queue entries, index files, config files."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest

from cometmq.codec import index_file
from cometmq.codec.checkpoint import decode_checkpoint, encode_checkpoint
from cometmq.codec.compression import decompress, plain_flag
from cometmq.codec.fastjson import dumps, loads
from cometmq.codec.message_id import encode_message_id
from cometmq.codec.queue_entry import QUEUE_ENTRY
from cometmq.codec.record import (
    Record,
    blank_tail,
    decode_record,
    encode_record,
)
from cometmq.codec.record_check import NoRecordError, check_record
from cometmq.kernel import WalkEnd, walk_records
from cometmq.model.java_hash import java_hash

STORES = Path(__file__).parent / "stores"
NAMES = ["clean", "crash"]
BODY_MAX = 4 * 1024 * 1024
# Properties that the broker adds to a pull answer or the client to what it got.
ADDED = {"MIN_OFFSET", "MAX_OFFSET"}
DELAY_TOPIC = "SCHEDULE_TOPIC_XXXX"


def log_files(name: str) -> Iterator[tuple[int, bytes]]:
    for path in sorted((STORES / name / "store" / "commitlog").iterdir()):
        yield int(path.name), path.read_bytes()


@cache
def records(name: str) -> dict[int, Record]:
    """Every record by its physical offset."""
    found = {}
    for start, content in log_files(name):
        for position, _, _ in walk_records(content, 0, len(content))[0]:
            found[start + position] = decode_record(content, position)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_record_is_written_again_byte_by_byte(name):
    count = 0
    for start, content in log_files(name):
        for position, size, _ in walk_records(content, 0, len(content))[0]:
            record = records(name)[start + position]
            assert encode_record(record) == content[position : position + size]
            assert check_record(content, position) == size == record.store_size
            assert record.physical_offset == start + position
            count += 1
    assert count == {"clean": 1245, "crash": 1243}[name]


@pytest.mark.parametrize("name", NAMES)
def test_every_log_file_ends_as_the_end_mark_says(name):
    ends = []
    for _, content in log_files(name):
        _, position, why = walk_records(content, 0, len(content))
        ends.append(why)
        if why is WalkEnd.BLANK:
            assert content[position : position + 8] == blank_tail(len(content) - position)
        with pytest.raises(NoRecordError) as caught:
            check_record(content, position)
        assert caught.value.why is why
    assert ends[:3] == [WalkEnd.BLANK] * 3
    assert set(ends[3:]) == {WalkEnd.EMPTY}


@pytest.mark.parametrize("name", NAMES)
def test_every_message_is_what_the_java_consumer_read(name):
    with (STORES / name / "expected.jsonl").open() as lines:
        expected = [json.loads(line) for line in lines]
    assert len(expected) == 1225
    for line in expected:
        record = records(name)[line["physical_offset"]]
        body = decompress(record.body, record.sys_flag, limit=BODY_MAX)
        properties = record.properties()
        told = {k: v for k, v in line["properties"].items() if k not in ADDED}
        # A retry message goes to users under its first topic's name.
        assert line["topic"] in (record.topic, properties.get("RETRY_TOPIC"))
        assert properties == told
        assert {
            "queue_id": record.queue_id,
            "queue_offset": record.queue_offset,
            "store_size": record.store_size,
            "flag": record.flag,
            "sys_flag": plain_flag(record.sys_flag),
            "born": record.born_timestamp,
            "stored": record.store_timestamp,
            "reconsume": record.reconsume_times,
            "body_size": len(body),
            "body_crc": crc32(body),
            "offset_msg_id": encode_message_id(record.store_host, record.physical_offset),
        }.items() <= line.items()


@pytest.mark.parametrize("name", NAMES)
def test_every_queue_entry_points_to_its_record(name):
    count = 0
    for path in sorted((STORES / name / "store" / "consumequeue").glob("*/*/*")):
        entries = QUEUE_ENTRY.iter_unpack(path.read_bytes())
        topic, queue_id = path.parent.parent.name, int(path.parent.name)
        for index, (physical_offset, size, tags_code) in enumerate(entries):
            if size == 0:
                break
            record = records(name)[physical_offset]
            assert (record.topic, record.queue_id) == (topic, queue_id)
            assert record.queue_offset == int(path.name) // 20 + index
            assert record.store_size == size
            if topic != DELAY_TOPIC:
                assert tags_code == java_hash(record.properties().get("TAGS", ""))
            count += 1
    assert count > 1200


@pytest.mark.parametrize("name", NAMES)
def test_every_index_entry_is_a_key_of_its_record(name):
    slots = 1000  # maxHashSlotNum of these stores
    for path in (STORES / name / "store" / "index").iterdir():
        content = path.read_bytes()
        assert len(content) == index_file.index_file_size(slots, 2000)
        header = index_file.decode_header(content)
        assert index_file.encode_header(header) == content[:40]
        for number in range(1, header.index_count):
            position = index_file.entry_position(number, slots)
            entry = index_file.decode_entry(content, position)
            record = records(name)[entry.physical_offset]
            assert entry.key_hash in key_hashes(record)
            assert entry.previous < number
            age_ms = record.store_timestamp - header.begin_timestamp
            assert entry.seconds == max(0, age_ms // 1000)


def key_hashes(record: Record) -> set[int]:
    properties = record.properties()
    keys = [properties.get("UNIQ_KEY", ""), *properties.get("KEYS", "").split(" ")]
    return {index_file.key_hash(record.topic, key) for key in keys if key}


@pytest.mark.parametrize("name", NAMES)
def test_the_checkpoint_is_read_and_written_again(name):
    content = (STORES / name / "store" / "checkpoint").read_bytes()
    checkpoint = decode_checkpoint(content)
    assert encode_checkpoint(checkpoint) == content
    newest = max(record.store_timestamp for record in records(name).values())
    assert checkpoint.log_timestamp <= newest


CONFIG_FILES = sorted(STORES.glob("*/store/config/*"))


@pytest.mark.parametrize("path", CONFIG_FILES, ids=lambda path: f"{path.parts[-4]}-{path.name}")
def test_every_config_file_is_written_again_byte_by_byte(path):
    content = path.read_bytes()
    assert dumps(loads(content), pretty=b"\n" in content) == content


def test_there_are_config_files_to_compare():
    assert len(CONFIG_FILES) == 41
