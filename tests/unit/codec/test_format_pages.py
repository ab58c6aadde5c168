"""The pages in docs/format say what the code does: same fields, sizes, order, and true examples."""

import re
import struct
from dataclasses import fields
from pathlib import Path

import pytest

from cometmq.broker.replication.group.member_files import MemberFiles
from cometmq.codec import index_file, message_id, other_queues, record
from cometmq.codec.batch import BATCH_HEAD, decode_batch
from cometmq.codec.bodies.conflicts import SUBSCRIPTION, decode_conflicts, encode_conflicts
from cometmq.codec.bodies.lock import decode_locks_file, encode_locks_file
from cometmq.codec.bodies.missing_brokers import decode_missing_brokers, encode_missing_brokers
from cometmq.codec.checkpoint import CHECKPOINT, Checkpoint, decode_checkpoint
from cometmq.codec.fastjson import dumps, loads
from cometmq.codec.host import HOST_V4, HOST_V6, decode_host
from cometmq.codec.properties import decode_properties
from cometmq.codec.queue_entry import QUEUE_ENTRY, QueueEntry, decode_entry
from cometmq.codec.record import blank_tail
from cometmq.codec.record_check import check_record
from cometmq.model.queue import MessageQueue
from cometmq.store.checkpoint import PROGRESS_SIZE, Progress, decode_progress, encode_progress
from cometmq.store.real_disk import RealDisk
from tests.support.unique_ids import UNIQUE_TAIL

FORMAT = Path(__file__).parents[3] / "docs" / "format"

# page, heading over the table, the code's struct, the fields of it in order
LAYOUTS = [
    ("record", "Head", record.RECORD_HEAD, (*record.Record._fields[:14], "body_size")),
    ("record", "The end of a log file", record._BLANK_TAIL, ("left", "magic")),
    ("batch", "Item", BATCH_HEAD, ("item_size", "magic", "body_crc", "flag", "body_size")),
    ("queue-entry", "The queue entry", QUEUE_ENTRY, QueueEntry._fields),
    ("index-file", "Header", index_file.INDEX_HEADER, index_file.IndexHeader._fields),
    ("index-file", "Slot", index_file.INDEX_SLOT, ("newest",)),
    ("index-file", "Entry", index_file.INDEX_ENTRY, index_file.IndexEntry._fields),
    ("checkpoint", "The checkpoint", CHECKPOINT, tuple(f.name for f in fields(Checkpoint))),
    ("other-queues", "Batch queues", other_queues.BATCH_ENTRY, other_queues.BatchEntry._fields),
    (
        "other-queues",
        "Extended queues",
        other_queues.EXTENDED_UNIT,
        ("size", "tags_code", "store_timestamp", "bit_map_size"),
    ),
    ("host", "IPv4", HOST_V4, ("ip", "port")),
    ("host", "IPv6", HOST_V6, ("ip", "port")),
    (
        "message-id",
        "Unique id",
        UNIQUE_TAIL,
        ("process", "loader", "time", "counter"),
    ),
]


def page_text(page: str) -> str:
    return (FORMAT / f"{page}.md").read_text()


def table_rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table under a heading."""
    section = re.split(rf"^#+ {re.escape(heading)}$", page_text(page), flags=re.MULTILINE)[1]
    table = re.search(r"(?:^\|.*\n)+", section, flags=re.MULTILINE)
    assert table is not None
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table[0].splitlines()]


def field_sizes(layout: struct.Struct) -> list[int]:
    """Bytes of each field of a struct."""
    return [struct.calcsize(f">{part}") for part in re.findall(r"\d*[a-zA-Z]", layout.format)]


@pytest.mark.parametrize(("page", "heading", "layout", "names"), LAYOUTS)
def test_a_pages_table_is_the_codes_struct(page, heading, layout, names):
    head, _, *rows = table_rows(page, heading)
    assert head[:2] == ["field", "bytes"]
    fixed = [row for row in rows if row[0] in names]
    told = [(row[0], int(row[1])) for row in fixed]
    assert told == list(zip(names, field_sizes(layout), strict=True))
    if "at" in head:
        places = [int(row[head.index("at")]) for row in fixed]
        sizes = field_sizes(layout)
        assert places == [sum(sizes[:index]) for index in range(len(sizes))]


def examples(page: str) -> list[bytes]:
    """The bytes of a page's hex blocks: on each line, what stands before two blanks."""
    blocks = re.findall(r"```hex\n(.*?)```", page_text(page), flags=re.DOTALL)
    return [
        bytes.fromhex("".join(line.split("  ")[0] for line in block.splitlines()))
        for block in blocks
    ]


def test_the_example_record_is_one():
    (content,) = examples("record")
    one = record.decode_record(content)
    assert record.encode_record(one) == content
    assert check_record(content, 0) == 109
    assert (one.body, one.topic, one.properties()) == (b"hello", "TopicTest", {"u": "v"})
    assert (one.queue_id, one.born_timestamp, one.store_timestamp) == (
        2,
        1795253569498,
        1795253569549,
    )
    assert decode_host(one.born_host) == "127.0.0.1:34536"
    assert decode_host(one.store_host) == "127.0.0.1:41911"


def test_the_example_batch_is_one():
    ((flag, body, block),) = decode_batch(examples("batch")[0])
    assert (flag, body) == (0, b"hello")
    assert decode_properties(block) == {"u": "v", "KEYS": "K1", "WAIT": "true", "TAGS": "TagA"}


def test_the_examples_are_what_the_pages_say_of_them():
    assert decode_properties(examples("properties")[0]) == {"TAGS": "TagA", "u": "v"}
    times = Checkpoint(1795256157132, 1795256157132, 1795256156160)
    assert decode_checkpoint(examples("checkpoint")[0]) == times
    assert decode_host(examples("host")[0]) == "127.0.0.1:41911"


def test_the_example_entries_are_some():
    assert decode_entry(examples("queue-entry")[0]) == (0, 268, 2598919)
    entry = index_file.decode_entry(examples("index-file")[0])
    assert entry == (index_file.key_hash("TopicTest", "K1"), 268, 7, 0)
    assert entry.key_hash % 1000 == 32


def test_the_example_entries_of_other_queues_are_some():
    batch, unit = examples("other-queues")
    entry = other_queues.decode_batch_entry(batch)
    assert entry == (74565, 256, 2598919, 1795253569549, 10, 3, -1, 0)
    assert other_queues.encode_batch_entry(entry) == batch
    found = other_queues.decode_extended_unit(unit)
    assert found == (2598919, 1795253569549, b"\xa0\x01")


def test_the_example_ids_are_some():
    offset_id, unique_id = (content.hex() for content in examples("message-id"))
    host, offset = message_id.decode_message_id(offset_id)
    assert (decode_host(host), offset) == ("127.0.0.1:41911", 268)
    assert UNIQUE_TAIL.unpack(bytes.fromhex(unique_id)[4:]) == (
        0xABC,
        0xDEADBEEF,
        1000,
        0,
    )


def test_the_example_file_is_what_we_would_write():
    (text,) = re.findall(r"```json\n(.*?)\n```", page_text("fastjson"), flags=re.DOTALL)
    assert dumps(loads(text), pretty=True).decode() == text


def test_the_example_of_the_queue_locks_is_what_the_code_writes():
    example = re.search(r"```json\n(.*?)\n```", page_text("queue-locks"), flags=re.DOTALL)
    assert example is not None
    holders = {("billing", MessageQueue("orders", "broker-a", 3)): "10.0.0.1@17"}
    assert encode_locks_file(holders) == example[1]
    assert decode_locks_file(example[1]) == holders


def test_the_example_of_the_conflicts_is_what_the_code_writes():
    example = re.search(r"```json\n(.*?)\n```", page_text("own-requests"), flags=re.DOTALL)
    assert example is not None
    (conflict,) = decode_conflicts(example[1])
    assert encode_conflicts([conflict]).decode() == example[1]
    assert (conflict.group, conflict.kind) == ("billing", SUBSCRIPTION)


def test_the_example_of_the_missing_brokers_is_what_the_code_writes():
    _, example = re.findall(r"```json\n(.*?)\n```", page_text("own-requests"), flags=re.DOTALL)
    (missing,) = decode_missing_brokers(example)
    assert encode_missing_brokers([missing]).decode() == example
    assert (missing.name, missing.queues) == ("broker-b", {"orders": 4})


def test_the_example_of_our_checkpoint_is_what_it_says():
    [block] = re.findall(r"```hex\n(.*?)```", page_text("store-directory"), flags=re.DOTALL)
    content = bytes.fromhex("".join(line.split("  ")[0] for line in block.splitlines()))
    progress = Progress(
        1545, 515, 15, index_file=20261121093000123, index_count=31, log_ms=1795256157132
    )
    assert content == encode_progress(progress)
    assert decode_progress(content) == progress


def test_the_table_of_our_checkpoint_has_its_sizes_and_places():
    section = page_text("store-directory").partition("## checkpoint.cometmq")[2]
    rows = re.findall(r"\| (\w+) \| (\d+) \| (\d+) \|", section)
    place = 0
    for _, size, at in rows:
        assert int(at) == place
        place += int(size)
    assert place == PROGRESS_SIZE
    assert [name for name, _, _ in rows][2:] == list(Progress._fields)


def test_the_end_of_a_log_file_is_as_the_page_says():
    section = (
        page_text("store-directory").partition("## Log files")[2].partition("## Queue files")[0]
    )
    sizes = [int(size) for size in re.findall(r"\| \w+ \| (\d+) \|", section)]
    assert sum(sizes) == len(blank_tail(100)) == 8
    assert blank_tail(100)[4:].hex() == "cbd43194"
    assert "0xCBD43194" in section


def test_the_state_of_a_member_of_a_group_is_read_and_written_as_the_page_has_it(tmp_path):
    (written,) = re.findall(
        r'^(\{"crc".*?)\n```', page_text("store-directory"), re.DOTALL | re.MULTILINE
    )
    file = tmp_path / "config/brokerGroup.json"
    file.parent.mkdir()
    file.write_text(written.replace("\n", "") + "\n")
    files = MemberFiles(str(tmp_path), RealDisk())
    state = files.load(group="broker-g", own="n0")
    assert state is not None
    before = file.read_bytes()
    files.save(state)
    assert file.read_bytes() == before
