"""The same as test_kernel_twins for what readers and the index use: entries, records, keys, hashes."""

import struct
from array import array
from collections import Counter
from collections.abc import Sequence
from functools import reduce
from operator import attrgetter, or_
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cometmq import kernel as fast
from cometmq.codec.record import Record, encode_record, topic_block
from cometmq.kernel import (
    WalkEnd,
    keys,
    layouts,
    messages,
    queue_ends,
    records,
    reference,
    wanted,
)
from cometmq.store.record_walk import checked_records, valid_records
from cometmq.store.stored_record import UNUSUAL, places_of
from tests.support.twin_turns import twin_timeout

pytestmark = [pytest.mark.compiled, pytest.mark.timeout(twin_timeout())]


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
                b"INNER_MULTI_DISPATCHER\1", b"a\1INNER_MULTI_DISPATCH", b"a\1\0", b"TAGS\1\0",
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
                st.sampled_from(["T", "Tü", "", "L" * 127, "M" * 128]),
                KEY_BLOCKS,
                st.sampled_from([0, 4, 12]),
            ),
            max_size=3,
        ),
        max_size=3,
    )
)
def test_the_same_keys_are_found(batches):
    waiting: list[Any] = []
    for number, parts in enumerate(batches):
        puts = [
            ("queue", topic_block(topic.encode())[1], b"", block, 0, 0, 0, 0, b"", 0, 0, kind)
            for topic, block, kind in parts
        ]
        results = [(0, 100 * place, 1) for place in range(len(puts))]
        waiting.append((0, number, results, puts, [], None, None))
    assert fast.index_keys(waiting) == keys.index_keys(waiting)


@given(
    st.lists(
        st.tuples(
            st.integers(-(1 << 31), (1 << 31) - 1),
            st.integers(0, 1 << 62),
            st.one_of(st.integers(-(1 << 62), 1 << 62), st.integers(0, 9999)),
        )
    ),
    st.integers(1, 100),
    st.integers(-2, 5000),
    st.lists(st.integers(-(1 << 31), (1 << 31) - 1), min_size=1, max_size=7),
)
def test_index_entries_and_slots_are_the_same(parts, number, begin_ms, before):
    given_keys = array("q", [number for part in parts for number in part])
    results = []
    for twin in (fast, keys):
        slots, changed = memoryview(array("i", before)), bytearray(4)
        made = twin.insert_keys(slots, number, given_keys, begin_ms, changed, 2, 3)
        results.append((made, slots.tolist(), changed))
    assert results[0] == results[1]
    assert sum(results[0][2]) == len(
        {((abs(part[0]) & 0x7FFFFFFF) % len(before) + 2) // 3 for part in parts}
    )


@given(
    st.lists(
        st.tuples(
            st.integers(0, 200),
            st.one_of(st.integers(-1, 30), st.just(0x7FFFFFFF)),
            st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.just(layouts.GAP_CODE)),
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
        st.sampled_from(["T", "Other", "Tü", "", "T\0", "L" * 127, "M" * 128]),
        st.binary(max_size=40),
        KEY_BLOCKS,
        st.sampled_from([bytes(8), bytes(20)]),
        st.sampled_from([0, 4, 8, 12, 128]),
        st.one_of(st.none(), st.none(), st.tuples(st.integers(0, 160), st.integers(0, 255))),
    ),
    max_size=8,
)  # fmt: skip


def piece_of(parts: list, cut: int, queue_ids: Sequence[int] = (2,)) -> bytes:
    """A piece of a log that begins at 1000, each topic's queues from 7 on, in turns."""
    chunk = bytearray()
    ends: Counter[tuple[str, int]] = Counter()
    for number, (topic, body, block, host, kind, change) in enumerate(parts):
        queue_id = queue_ids[number % len(queue_ids)]
        record = bytearray(
            encode_record(
                Record(
                    body=body, topic=topic, property_block=block, born_host=host,
                    store_host=bytes(8), sys_flag=kind, physical_offset=1000 + len(chunk),
                    queue_id=queue_id, queue_offset=7 + ends[topic, queue_id],
                    store_timestamp=5 + len(chunk),
                )
            )
        )  # fmt: skip
        ends[topic, queue_id] += kind in (0, 8)
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
    stopped = fast.plain_records(piece, 0, 1000, topics, Record, ours)
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
    for twin in (fast, wanted):
        queues = {topic.encode(): {2: [7, bytearray(b"before")]} for topic in known}
        found = bytearray(b"before")
        results.append((twin.wanted_entries(piece, 0, 1000, queues, found), queues, found))
    assert results[0] == results[1]
    (end, count), queues, found = results[0]
    taken = valid_records(bytes(piece), 1000)[0][:count]
    assert sum(record.store_size for record in taken) == end
    for topic in known:
        entries = [
            layouts.QUEUE_ENTRY.struct.pack(record.physical_offset, record.store_size, place[3])
            for record in taken
            for place in places_of(record, ())
            if place[:2] == (topic, 2)
        ]
        assert queues[topic.encode()][2] == [7 + len(entries), b"before" + b"".join(entries)]
    found_keys = keys.record_keys(taken)
    meant = [
        (at, wanted.index_hash(code))
        for code, at in zip(found_keys[0::3], found_keys[1::3], strict=True)
    ]
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
    entries = entries[: len(parts) * layouts.INDEX_ENTRY.size]
    results = []
    for twin in (fast, wanted):
        slots = memoryview(array("i", before))
        results.append((twin.stored_keys(slots, number, bytes(entries)), slots.tolist()))
    assert results[0] == results[1]
    assert change is not None or results[0][0][2]
    for twin in (fast, wanted):
        with pytest.raises(ValueError, match="whole entries"):
            twin.stored_keys(memoryview(array("i", before)), number, b"short")


class Taken:
    """A message as the kernel fills it."""

    __slots__ = ("_record", "body", "queue", "queue_offset")


@given(RECORDS, st.sampled_from(["T", "Tü", "L" * 127, "M" * 128]), st.integers(0, 200))
def test_the_same_messages_are_made(parts, topic, cut):
    # Blocks without their last mark are not plain; here every second one has it.
    marked = [
        (*part[:2], part[2] + b"\2" if number % 2 else part[2], *part[3:])
        for number, part in enumerate(parts)
    ]
    piece = piece_of(marked, cut)
    results = []
    for twin in (fast, messages):
        taken: list[Taken] = []
        stops = []
        position = 0
        for part in marked:  # Each time past the record that was not plain.
            position = twin.plain_messages(
                piece,
                position,
                "queue",
                topic.encode(),
                Taken,
                taken,
            )
            stops.append(position)
            position += len(piece_of([(*part[:5], None)], 0))
        results.append((list(map(attrgetter(*Taken.__slots__), taken)), stops))
    assert results[0] == results[1]


@given(
    st.one_of(KEY_BLOCKS, KEY_BLOCKS.map(lambda block: block + b"\2"), st.binary(max_size=12))
)
def test_the_same_properties_are_plain(block):
    found = messages.plain_properties(block)
    ours = fast.plain_properties(block)
    assert ours == found
    if found is not None and ours is not None:
        assert list(found) == list(ours)


PROPERTY_TEXTS = st.one_of(
    st.text("ab\1\2 \u00e9\U0001f600", max_size=3),
    st.sampled_from(["", "a", "\ud800", "x" * 32_760, "\u00e9" * 16_382]),
)


@given(st.dictionaries(PROPERTY_TEXTS, PROPERTY_TEXTS, max_size=4))
def test_the_same_properties_have_a_block(properties):
    block = fast.plain_block(properties)
    assert block == messages.plain_block(properties)
    if block is not None:
        assert fast.plain_properties(block) == properties


@given(RECORDS, st.integers(0, 200))
# A sysFlag with its highest bit, of a record that is plain and of one that is not.
@example([("T", b"", b"", bytes(8), 0, (36, 128))], 0)
@example([("\u00e9", b"", b"", bytes(8), 0, (36, 128))], 0)
# A store time below 0, which no CRC covers.
@example([("T", b"", b"", bytes(8), 0, (56, 128))], 0)
def test_bytes_are_checked_and_their_keys_found_as_those_of_records(parts, cut):
    piece = piece_of(parts, cut)
    checked = fast.check_records(piece, 0, 1000)
    assert checked == records.check_records(piece, 0, 1000)
    assert checked == records.check_records(memoryview(piece), 0, 1000)
    taken, walked, why = valid_records(piece, 1000)
    end, kinds, store_ms, found_why = checked_records(piece, 1000)
    assert (end, found_why) == (walked, why)
    assert store_ms == (taken[-1].store_timestamp if taken else -1)
    assert kinds == reduce(or_, (record.sys_flag for record in taken), 0) & 0xFFFFFFFF
    # Bytes of a read are looked at where they were received.
    found, stopped = fast.raw_keys(memoryview(bytearray(piece))[:walked], 0, 1000)
    assert (found, stopped) == wanted.raw_keys(piece[:walked], 0, 1000)
    assert stopped >= checked[0]
    plain = [record for record in taken if record.physical_offset < 1000 + stopped]
    assert found == keys.record_keys(plain)


OTHER = (*UNUSUAL[:2], "Other")  # That topic instead of the one of delays.
SHOWN = ["T", "Other", "L" * 127]


def shown_by(
    twin: Any,
    piece: memoryview,
    end_type: type,
    *,
    others: set[int],
    first: int,
    is_watched: bool,
    queue_ids: Sequence[int] = (2,),
    begin: int = 0,
) -> list[Any]:
    """What one twin shows of a piece, where queues begin at `first` and those of some topics are of another type."""
    other_type = type("Other", (end_type,), {"__slots__": ()})
    queues: dict[str, dict[int, Any]] = {
        topic: {
            each: (other_type if number in others else end_type)(each) for each in queue_ids
        }
        for number, topic in enumerate(SHOWN)
    }
    ends = [queue for of_topic in queues.values() for queue in of_topic.values()]
    for queue in ends:
        queue.max_offset, queue.watched = first, is_watched
    dirty: dict[Any, None] = {}
    full: list[Any] = []
    watched: dict[Any, list[int]] = {}
    stop = twin.show_records(
        piece, begin, 1000, OTHER, queues.get, end_type, dirty, 40, full, watched
    )
    return [
        stop,
        [(queue.next_offset, queue.max_offset, bytes(queue.tail)) for queue in ends],
        [ends.index(queue) for queue in dirty],
        [ends.index(queue) for queue in full],
        {ends.index(queue): codes for queue, codes in watched.items()},
    ]


@given(RECORDS, st.sets(st.integers(0, 2)), st.integers(5, 8), st.booleans())
def test_records_get_the_same_queue_entries_and_stop_at_the_same(
    parts, others, first, watched_too
):
    """What is shown are the entries that the records ask for, one after the other; no more than is plain."""
    content = piece_of(parts, 0)
    piece = memoryview(bytearray(content))[: checked_records(content, 1000).end]
    results = [
        shown_by(twin, piece, end_type, others=others, first=first, is_watched=watched_too)
        for twin, end_type in ((fast, fast.QueueEnd), (wanted, queue_ends.QueueEnd))
    ]
    assert results[0] == results[1]
    (_, count), shown, *_ = results[0]
    taken = valid_records(content, 1000)[0][:count]
    for (_, _, tail), topic in zip(shown, SHOWN, strict=True):
        meant = [
            layouts.QUEUE_ENTRY.struct.pack(record.physical_offset, record.store_size, place[3])
            for record in taken
            for place in places_of(record, ())
            if place[0] == topic
        ]
        assert tail == b"".join(meant)


# Of these some have their last bits in common, and one is below 0.
MANY_IDS = (2, 18, 3, 34, -14, 2)


@given(RECORDS, st.lists(st.sampled_from(MANY_IDS), min_size=1, max_size=4), st.integers(0, 8))
@example([("T", b"", b"", bytes(8), 0, None)] * 8, list(MANY_IDS), 0)
def test_a_walk_that_begins_in_the_middle_finds_each_queue_and_each_key(parts, queue_ids, nth):
    content = piece_of(parts, 0, queue_ids)
    piece = memoryview(bytearray(content))[: checked_records(content, 1000).end]
    places = array("q", records.record_places(piece, 0, len(piece))[0]).tolist()
    begin = places[nth] if nth < len(places) else 0
    results = [
        shown_by(
            twin, piece, end_type, others=set(), first=7, is_watched=False,
            queue_ids=list(dict.fromkeys(queue_ids)), begin=begin,
        )
        for twin, end_type in ((fast, fast.QueueEnd), (wanted, queue_ends.QueueEnd))
    ]  # fmt: skip
    assert results[0] == results[1]
    (end, count), shown, *_ = results[0]
    walked = valid_records(content, 1000)[0]
    taken = [record for record in walked if begin <= record.physical_offset - 1000 < end]
    assert len(taken) == count
    entries: list[bytes] = []
    for topic in SHOWN:
        for queue_id in dict.fromkeys(queue_ids):
            meant = [
                layouts.QUEUE_ENTRY.struct.pack(record.physical_offset, record.store_size, code)
                for record in taken
                for place_topic, place_id, _, code in places_of(record, ())
                if (place_topic, place_id) == (topic, queue_id)
            ]
            entries.append(b"".join(meant))
    assert [tail for _, _, tail in shown] == entries
    found, stopped = fast.raw_keys(piece, begin, 1000)
    assert (found, stopped) == wanted.raw_keys(piece, begin, 1000)
    assert stopped >= end
    plain = [record for record in walked if begin <= record.physical_offset - 1000 < stopped]
    assert found == keys.record_keys(plain)
