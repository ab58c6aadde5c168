"""The same as test_kernel_twins for what readers and the index use: entries, records, keys, hashes."""

import shutil
import struct
from array import array
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.codec.record import Record, encode_record
from cometmq.kernel import WalkEnd, keys, records, reference, wanted
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.record_walk import valid_records
from cometmq.store.stored_record import places_of

try:
    from cometmq.kernel import _fast as fast
    from cometmq.kernel import _walk as fast_walk
except ImportError:
    if shutil.which("cc") or shutil.which("gcc"):
        raise
    pytest.skip("no C compiler here, so no compiled kernel", allow_module_level=True)


@given(st.lists(st.one_of(st.text(max_size=300).map(str.encode), st.binary(max_size=9))))
def test_hashes_are_the_same(texts):
    assert fast.java_hash_many(texts) == reference.java_hash_many(texts)


KEY_BLOCKS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                b"UNIQ_KEY\1A1", b"UNIQ_KEY\1", b"XUNIQ_KEY\1B", b"KEYS\1one two  three", b"KEYS\1 ",
                "KEYS\1ü".encode(), b"KEYS\1\xff", b"UNIQ_KEY\1a\1b", b"KEYS", b"a\1UNIQ_KEY\1",
                b"TAGS\1one", b"TAGS\1", "TAGS\1ü".encode(), b"XTAGS\1two", b"INNER_MULTI_DISPATCH\1T",
            ]
        ),
        st.binary(max_size=8),
    ),
    max_size=4,
).map(b"\2".join)  # fmt: skip


@given(
    st.lists(
        st.lists(
            st.tuples(
                st.sampled_from(["T", "Tü", ""]), KEY_BLOCKS, st.sampled_from([0, 4, 12])
            ),
            max_size=3,
        ),
        max_size=3,
    )
)
def test_the_same_keys_are_found(batches):
    waiting = []
    for number, parts in enumerate(batches):
        puts = [
            (ConsumeQueue(topic, 0), b"", b"", block, 0, 0, 0, 0, b"", 0, 0, kind)
            for topic, block, kind in parts
        ]
        waiting.append((puts, [(0, 100 * place, 1) for place in range(len(puts))], number))
    assert fast.index_keys(waiting) == keys.index_keys(waiting)


@given(
    st.lists(
        st.tuples(
            st.integers(-(1 << 31), (1 << 31) - 1),
            st.integers(0, 1 << 62),
            st.integers(-(1 << 31), (1 << 31) - 1),
        )
    ),
    st.integers(1, 100),
    st.lists(st.integers(-(1 << 31), (1 << 31) - 1), min_size=1, max_size=7),
)
def test_index_entries_and_slots_are_the_same(keys, number, before):
    results = []
    for twin in (fast, reference):
        slots = memoryview(array("i", before))
        hashes, offsets, seconds = zip(*keys, strict=True) if keys else ((), (), ())
        made = twin.index_insert(slots, number, hashes, offsets, seconds)
        results.append((made, slots.tolist()))
    assert results[0] == results[1]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 200),
            st.one_of(st.integers(-1, 30), st.just(0x7FFFFFFF)),
            st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.just(reference.GAP_CODE)),
        )
    ),
    st.integers(1, 6),
    st.integers(1, 90),
    st.integers(0, 60),
    st.sampled_from([None, "even"]),
)
def test_the_same_entries_are_chosen_and_gathered(parts, count, size, log_start, match):
    offset, entries = 0, b""
    for gap, length, code in parts:
        offset += gap if gap % 3 else 0  # Neighbours in the log now and then.
        entries += struct.pack(">qiq", offset, length, code)
        offset += length if 0 < length < 100 else 0
    wanted = None if match is None else lambda code: code % 2 == 0
    view = memoryview(bytes(range(256)) * 2)
    results = []
    for twin in (fast, reference):
        chosen = twin.choose_entries(entries, count, size, log_start, wanted)
        results.append((chosen, twin.gather(view, 50, chosen[0])))
    assert results[0] == results[1]


RECORDS = st.lists(
    st.builds(
        lambda topic, body, block, host, kind, change: (
            topic, body, block, host, kind, change,
        ),
        st.sampled_from(["T", "Other", "Tü", "L" * 127, "M" * 128]),
        st.binary(max_size=40),
        KEY_BLOCKS,
        st.sampled_from([bytes(8), bytes(20)]),
        st.sampled_from([0, 4, 8, 12, 128]),
        st.one_of(st.none(), st.none(), st.tuples(st.integers(0, 160), st.integers(0, 255))),
    ),
    max_size=8,
)  # fmt: skip


def piece_of(parts: list, cut: int) -> bytes:
    """A piece of a log that begins at 1000, each topic's one queue from 7 on."""
    chunk = bytearray()
    ends: Counter[str] = Counter()
    for topic, body, block, host, kind, change in parts:
        record = bytearray(
            encode_record(
                Record(
                    body=body, topic=topic, property_block=block, born_host=host,
                    store_host=bytes(8), sys_flag=kind, physical_offset=1000 + len(chunk),
                    queue_id=2, queue_offset=7 + ends[topic],
                )
            )
        )  # fmt: skip
        ends[topic] += kind in (0, 8)
        if change is not None and change[0] < len(record):
            record[change[0]] = change[1]
        chunk += record
    return bytes(chunk[: len(chunk) - cut])


KNOWN = st.sets(st.sampled_from(["T", "Other", "Tü"]))


@given(RECORDS, KNOWN, st.integers(0, 200))
def test_the_same_plain_records_are_taken(parts, known, cut):
    piece = piece_of(parts, cut)
    topics = {name.encode(): name for name in known}
    ours: list[Record] = []
    meant: list[Record] = []
    stopped = fast_walk.plain_records(piece, 0, 1000, topics, Record, ours)
    assert stopped == records.plain_records(piece, 0, 1000, topics, Record, meant)
    assert ours == meant
    assert all(type(one) is Record for one in ours)
    taken, at, why = valid_records(piece, 1000)
    assert fast.record_keys(taken) == keys.record_keys(taken)
    assert taken[: len(ours)] == ours
    assert at >= stopped
    assert why in WalkEnd


@given(RECORDS, KNOWN, st.integers(0, 200))
def test_the_same_entries_are_wanted_and_they_are_what_the_records_ask_for(parts, known, cut):
    piece = piece_of(parts, cut)
    results = []
    for twin in (fast_walk, wanted):
        queues = {topic.encode(): {2: [7, bytearray(b"before")]} for topic in known}
        found = bytearray(b"before")
        results.append((twin.wanted_entries(piece, 0, 1000, queues, found), queues, found))
    assert results[0] == results[1]
    (end, count), queues, found = results[0]
    taken = valid_records(piece, 1000)[0][:count]
    assert sum(record.store_size for record in taken) == end
    for topic in known:
        entries = [
            reference.ENTRY.pack(record.physical_offset, record.store_size, place[3])
            for record in taken
            for place in places_of(record, ())
            if place[:2] == (topic, 2)
        ]
        assert queues[topic.encode()][2] == [7 + len(entries), b"before" + b"".join(entries)]
    meant = [(at, wanted.index_hash(code)) for code, at, _ in keys.record_keys(taken)]
    assert list(wanted.KEY.iter_unpack(found[len(b"before") :])) == meant


@given(
    st.lists(
        st.tuples(
            st.one_of(st.integers(0, 20), st.integers(-(1 << 31), (1 << 31) - 1)),
            st.integers(-(1 << 63), (1 << 63) - 1),
        )
    ),
    st.integers(1, 100),
    st.lists(st.integers(-(1 << 31), (1 << 31) - 1), min_size=1, max_size=7),
    st.one_of(st.none(), st.tuples(st.integers(0, 100), st.binary(min_size=1, max_size=4))),
)
def test_stored_keys_and_their_chains_are_read_the_same(parts, number, before, change):
    hashes, offsets = zip(*parts, strict=True) if parts else ((), ())
    slots = memoryview(array("i", before))
    entries = bytearray(reference.index_insert(slots, number, hashes, offsets, hashes)[0])
    if change is not None and change[0] < len(entries):
        entries[change[0] : change[0] + len(change[1])] = change[1]
    entries = entries[: len(parts) * reference.INDEX_ENTRY.size]
    results = []
    for twin in (fast_walk, wanted):
        slots = memoryview(array("i", before))
        results.append((twin.stored_keys(slots, number, bytes(entries)), slots.tolist()))
    assert results[0] == results[1]
    assert change is not None or results[0][0][2]
    for twin in (fast_walk, wanted):
        with pytest.raises(ValueError, match="whole entries"):
            twin.stored_keys(memoryview(array("i", before)), number, b"short")
