"""Entered many at a time, keys lie in an index file as RocketMQ's IndexFile.putKey lays them, one by one."""

from __future__ import annotations

import struct
from array import array
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from cometmq.codec.index_file import IndexHeader, encode_header
from cometmq.store.disk import write_whole
from cometmq.store.index_file import IndexFile, IndexShape
from tests.support.fake_disk import FakeDisk

SHAPE = IndexShape(slots=7, entries=60)
PATH = "/index/20260101000000000"
INT_MAX = 0x7FFFFFFF


class JavaIndexFile:
    """IndexFile.putKey of RocketMQ 5.3.3, line by line."""

    def __init__(self, begin_ms: int, begin: int) -> None:
        self.buffer = bytearray(SHAPE.file_size)
        self.begin_ms = self.end_ms = begin_ms
        self.begin = self.end = begin
        self.slots_used, self.index_count = 0, 1

    def put_key(self, java_hash: int, offset: int, store_ms: int) -> None:
        key_hash = abs(java_hash)
        if key_hash > INT_MAX:
            key_hash = 0
        slot_at = 40 + key_hash % SHAPE.slots * 4
        [slot] = struct.unpack_from(">i", self.buffer, slot_at)
        if slot <= 0 or slot > self.index_count:
            slot = 0
        # Java's division rounds towards 0; what is negative becomes 0 anyhow.
        difference = int((store_ms - self.begin_ms) / 1000)
        difference = 0 if self.begin_ms <= 0 else max(0, min(difference, INT_MAX))
        at = 40 + SHAPE.slots * 4 + self.index_count * 20
        struct.pack_into(">iqii", self.buffer, at, key_hash, offset, difference, slot)
        struct.pack_into(">i", self.buffer, slot_at, self.index_count)
        if self.index_count <= 1:
            self.begin, self.begin_ms = offset, store_ms
        self.slots_used += slot == 0
        self.index_count += 1
        self.end, self.end_ms = offset, store_ms

    def content(self) -> bytes:
        header = IndexHeader(
            self.begin_ms, self.end_ms, self.begin, self.end, self.slots_used, self.index_count
        )
        self.buffer[:40] = encode_header(header)
        return bytes(self.buffer)


HASHES = st.integers(-(1 << 31), INT_MAX) | st.sampled_from([0, -(1 << 31), INT_MAX])
TIMES = st.integers(0, 1 << 44) | st.integers(1_700_000_000_000, 1_700_000_100_000)
KEYS = st.lists(st.tuples(HASHES, st.integers(0, 1 << 40), TIMES), min_size=1, max_size=12)


@given(st.lists(KEYS, max_size=4), st.sampled_from([(0, 0), (1_700_000_000_000, 500)]))
def test_a_file_has_the_bytes_that_java_writes(batches, before):
    end_ms, end = before
    theirs = JavaIndexFile(end_ms, end)
    disk = FakeDisk()
    disk.make_directory("/index")
    ours = IndexFile(disk, PATH, SHAPE, header=IndexHeader(end_ms, end_ms, end, end))
    ours.make()
    for batch in batches:
        ours.insert(array("q", chain.from_iterable(batch)))
        for key in batch:
            theirs.put_key(*key)
    ours.write_entries()
    fd = disk.open(PATH)
    write_whole(disk, fd, encode_header(ours.header), 0)
    for position, content in ours.changed_runs():
        write_whole(disk, fd, content, position)
    assert disk.content(PATH) == theirs.content()
