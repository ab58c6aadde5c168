"""Sends as columns: the compiled kernel and the plain one take the same, and make the same of it."""

from __future__ import annotations

import json
import shutil
import struct
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cometmq.codec.record import RECORD_HEADS
from cometmq.kernel import (
    column_records,
    columns,
    keys,
    lane_table,
    queue_ends,
    taking,
    tallies,
    time_counts,
)
from tests.support.lane_tables import table_of
from tests.support.send_frames import FORMS, SENDS, Sent, frame_of, in_words, item_of
from tests.support.twin_turns import twin_calls, twin_timeout, twin_turns

try:
    from tests.support import compiled_kernel as fast
except ImportError:
    # Without a compiler there is one kernel; with one, a twin that was not built is a fault.
    if shutil.which("cc") or shutil.which("gcc"):
        raise
    pytest.skip("no C compiler here, so no compiled kernel", allow_module_level=True)

pytestmark = pytest.mark.timeout(twin_timeout())
SUFFIX = b"MSG_REGION\1R\2TRACE_ON\1true\2"
HOSTS = (bytes(range(8)), bytes(range(20)))
STORE_HOST = b"storehos"
LAYOUTS = {
    8: (RECORD_HEADS[0].pack, RECORD_HEADS[0].size + 2, 0),
    20: (RECORD_HEADS[16].pack, RECORD_HEADS[16].size + 2, 16),
}
LIMITS = 1 << 20, 1 << 24, 1 << 16, 3  # The last: messages of a batch.
HOST = "C0A80001"
TAIL_SIZE_MAX = 60


class Plain:
    """The plain kernel, by the names of the compiled one."""

    QueueEnd = queue_ends.QueueEnd
    LaneTable = lane_table.LaneTable
    SendBatch = columns.SendBatch
    take_sends = staticmethod(taking.take_sends)
    pack_columns = staticmethod(column_records.pack_columns)
    take_back = staticmethod(column_records.take_back)
    show_columns = staticmethod(column_records.show_columns)
    answer_columns = staticmethod(column_records.answer_columns)
    index_keys = staticmethod(keys.index_keys)
    Tally = tallies.Tally
    count_columns = staticmethod(tallies.count_columns)
    count_puts = staticmethod(tallies.count_puts)


def worked(kernel: Any, reads: list[bytes], count_max: int, room: int) -> list[object]:
    """All that a kernel makes of the bytes of some connections."""
    queues = [kernel.QueueEnd(number) for number in range(3)]
    queues[1].watched, queues[2].next_offset = True, 1 << 40
    start = '{"code":0,"extFields":{"queueId":"0","msgId":"C0A8'
    topics = ("Orders", "Bills", "T" * 100)
    straight = table_of(kernel, {topic: dict(enumerate(queues)) for topic in topics}, start)
    batch = kernel.SendBatch(SUFFIX)
    seen: list[object] = []
    for number, data in enumerate(reads):
        position = kernel.take_sends(
            batch, data, 0, count_max, HOSTS[number % 2], straight, LIMITS
        )
        seen += [position, batch.count, len(batch), batch.request_count]
    seen += [without_queues(batch.puts()), batch.pending(0, 99), batch.requests(0, 99)]
    content: list[bytes] = []
    packed, position = kernel.pack_columns(
        batch, 0, 1000, 1000 + room, LAYOUTS, 1700, STORE_HOST, content
    )
    if packed < batch.count:
        seen += [packed, position, b"".join(content), batch.results(0, 99)]
        kernel.take_back(batch)
        seen += [batch.results(0, 99), [queue.next_offset for queue in queues]]
        content.clear()
        packed, position = kernel.pack_columns(
            batch, 0, 5000, 1 << 40, LAYOUTS, 1700, STORE_HOST, content
        )
    return seen + seen_of(kernel, batch, queues) + [packed, position, b"".join(content)]


def seen_of(kernel: Any, batch: Any, queues: list[Any]) -> list[object]:
    """What a kernel makes of sends that are packed."""
    dirty: dict[Any, None] = {}
    full: list[Any] = []
    watched: dict[Any, list[int]] = {}
    packed = batch.count
    kernel.show_columns(batch, dirty, TAIL_SIZE_MAX, full, watched)
    seen: list[object] = [batch.start, batch.results(0, 99)]
    seen += [without_queues(batch.arrivals()), [queue.queue_id for queue in [*dirty, *full]]]
    seen += [{queue.queue_id: codes for queue, codes in watched.items()}]
    seen += [(queue.next_offset, queue.max_offset, bytes(queue.tail)) for queue in queues]
    middle = packed // 2
    seen += [
        kernel.answer_columns(batch, 0, middle, HOST),
        kernel.answer_columns(batch, middle, packed, HOST),
        column_records.answers_of(batch, 0, packed, HOST),
    ]
    if packed:
        seen.append(batch.end_of(packed))
    seen.append(counted(kernel, batch, queues))
    return [*seen, kernel.index_keys([(0, 1700, [], (), [], None, batch)])]


def counted(kernel: Any, batch: Any, queues: list[Any]) -> list[object]:
    """What a kernel counts of them, once as columns and once as objects; of the last queue nobody does."""
    fresh: list[Any] = []
    above = kernel.Tally("above", None, fresh)
    all_of_them = [above, *(kernel.Tally(number, above, fresh) for number in range(2))]
    queues[0].tally, queues[1].tally, queues[2].tally = all_of_them[1], all_of_them[2], None
    kernel.count_columns(batch, 0, 3, 7)
    kernel.count_columns(batch, 3, 1 << 40, 1 << 40)
    told = [sorted(str(tally.of) for tally in fresh)]
    for tally in fresh[:]:
        tally.looked_at()
    kernel.count_puts(batch.puts(), batch.results(0, 99), 9)
    above.add(2, 50, 3)
    told.append(sorted(str(tally.of) for tally in fresh))
    return [told] + [
        (each.of, each.count, each.size, each.time_us, each.times, each.sizes)
        for each in all_of_them
    ]


def without_queues(rows: list[Any]) -> list[Any]:
    return [(row[0].queue_id, *row[1:]) for row in rows]


@given(
    st.lists(st.lists(st.tuples(SENDS, FORMS), max_size=5), min_size=1, max_size=3),
    st.integers(0, 40),
    st.integers(1, 6),
    st.integers(0, 2000),
)
@settings(max_examples=twin_turns(400), deadline=None)
def test_both_take_the_same_sends_and_make_the_same_of_them(reads, cut, count_max, room):
    whole = [b"".join(frame_of(sent, form) for sent, form in read) for read in reads]
    whole[-1] = whole[-1][: len(whole[-1]) - cut] if cut < len(whole[-1]) else whole[-1]
    assert worked(fast, whole, count_max, room) == worked(Plain, whole, count_max, room)


PLAIN = Sent(
    310, 0, 7,
    {
        "a": "p", "b": "Orders", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000",
        "h": "0", "i": "UNIQ_KEY\1A1\2WAIT\1true\2TAGS\1TagA\2", "j": "0", "k": "false", "m": "false",
    },
    b"body",
)  # fmt: skip
_ITEMS = [
    item_of(b"one", 3, "UNIQ_KEY\1A2\2TAGS\1TagA\2", (0, 0, 0)),
    item_of(b"", 0, "", (0, 0, 0)),
    item_of(b"three", 0, "KEYS\1k1 k2", (0, 0, 0)),
]
BATCH = PLAIN._replace(
    code=320,
    fields=PLAIN.fields | {"i": "WAIT\1true\2UNIQ_KEY\1A1\2", "m": "true"},
    body=b"".join(_ITEMS),
)
HEADERS = [frame_of(PLAIN, form)[8 : -len(PLAIN.body)] for form in ("json", "binary")]


@pytest.mark.parametrize("form", ["json", "raw", "binary"])
def test_what_official_clients_write_is_taken(form):
    data = frame_of(PLAIN, form) * 3
    for kernel in (fast, Plain):
        assert worked(kernel, [data], 9, 0)[:4] == [len(data), 3, 3, 3]


@pytest.mark.parametrize("form", ["json", "raw", "binary"])
@pytest.mark.parametrize("kernel", [fast, Plain], ids=["compiled", "plain"])
def test_so_are_batches_and_sends_with_words(kernel, form):
    words, whole = frame_of(in_words(PLAIN), form), frame_of(BATCH, form)
    assert worked(kernel, [words * 3], 9, 0)[:4] == [3 * len(words), 3, 3, 3]
    assert worked(kernel, [whole * 3], 2, 0)[:4] == [2 * len(whole), 6, 6, 2]
    four = BATCH._replace(body=BATCH.body + item_of(b"four", 0, "", (0, 0, 0)))
    assert worked(kernel, [whole + frame_of(four, form)], 9, 0)[:2] == [len(whole), 3]


@pytest.mark.parametrize("form", ["json", "raw", "binary"])
@pytest.mark.parametrize("offset", [0, 9, *(10**n + d for n in range(1, 19) for d in (-1, 0))])
def test_answers_name_numbers_of_any_length(form, offset):
    opaque = offset if offset < 1 << 31 else -(offset % (1 << 31))
    data = frame_of(PLAIN._replace(opaque=opaque), form)
    start = '{"code":0,"extFields":{"queueId":"0","msgId":"C0A8'
    answers = []
    kernels: tuple[Any, ...] = fast, Plain
    for kernel in kernels:
        queue, batch = kernel.QueueEnd(1), kernel.SendBatch(SUFFIX)
        queue.next_offset = offset
        straight = table_of(kernel, {"Orders": {1: queue}}, start)
        assert kernel.take_sends(batch, data, 0, 9, HOSTS[0], straight, LIMITS) == len(data)
        kernel.pack_columns(batch, 0, offset, 1 << 62, LAYOUTS, 1700, STORE_HOST, [])
        answers.append(bytes(kernel.answer_columns(batch, 0, 1, HOST)))
    assert answers[0] == answers[1]
    assert json.loads(answers[0][8:])["opaque"] == opaque
    assert json.loads(answers[0][8:])["extFields"]["queueOffset"] == str(offset)


@given(st.sampled_from([0, 1]), st.integers(0, 400), st.binary(max_size=3), st.integers(0, 3))
@example(0, 1, b"\xff", 1)
@settings(max_examples=twin_calls(1000), deadline=None)
def test_a_damaged_header_means_the_same_to_both(kind, at, garbage, removed):
    header = HEADERS[kind]
    at %= len(header)
    header = header[:at] + garbage + header[at + removed :]
    data = struct.pack(">iI", 4 + len(header) + 4, kind << 24 | len(header)) + header + b"body"
    # Behind a whole one, too: the compiled kernel remembers headers.
    data += frame_of(PLAIN, "json") + data + frame_of(PLAIN, "json") + data
    assert worked(fast, [data], 9, 0) == worked(Plain, [data], 9, 0)
    behind = frame_of(PLAIN, "json") + data
    assert worked(fast, [behind], 9, 0) == worked(Plain, [behind], 9, 0)


@given(st.binary(max_size=64))
@settings(deadline=None)
def test_garbage_is_left_by_both(data):
    assert worked(fast, [data], 9, 0) == worked(Plain, [data], 9, 0)


@pytest.mark.parametrize("kernel", [fast, Plain], ids=["compiled", "plain"])
def test_an_answer_before_its_record_is_an_error(kernel):
    batch = kernel.SendBatch(SUFFIX)
    with pytest.raises(IndexError):
        kernel.answer_columns(batch, 0, 1, HOST)
    with pytest.raises(IndexError):
        batch.end_of(1)


@pytest.mark.parametrize("kernel", [fast, Plain], ids=["compiled", "plain"])
def test_a_key_that_needs_an_escape_is_left(kernel):
    odd = PLAIN._replace(fields=PLAIN.fields | {"i": 'UNIQ_KEY\1a"b\2'})
    data = frame_of(odd, "json")
    assert json.loads(data[8 : -len(odd.body)])["extFields"]["i"] == 'UNIQ_KEY\1a"b\2'
    assert worked(kernel, [data], 9, 0)[:2] == [0, 0]


@given(
    st.lists(st.integers(0, 99), max_size=9, unique=True).map(sorted),
    st.lists(st.tuples(st.integers(0, 120), st.integers(1, 9))),
)
def test_times_are_counted_in_the_same_classes(bounds, some):
    seen = []
    for kernel in (fast, time_counts):
        counted = kernel.TimeCounts(bounds)
        for time_us, count in some:
            counted.add(time_us, count)
        counted.add(7)
        seen.append((list(counted.counts), counted.max_us, counted.total_us, counted.count))
    assert seen[0] == seen[1]
