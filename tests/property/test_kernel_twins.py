"""The compiled kernel and the plain one give the same, whatever they are given."""

import json
import os
import struct
import subprocess
import sys
import zlib
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq import kernel as fast
from cometmq.codec.header_json import LANGUAGES, decode_json_command
from cometmq.codec.record import RECORD_HEADS
from cometmq.kernel import (
    crc,
    queue_ends,
    records,
    reference,
    requests,
    sends,
    tallies,
    time_counts,
)
from cometmq.model.errors import CodecError
from tests.support.twin_turns import twin_timeout

pytestmark = [pytest.mark.compiled, pytest.mark.timeout(twin_timeout())]

LIMIT, HEADER_LIMIT = 1 << 24, 1 << 16
FRAME_NUMBERS = 4  # Of an item that is a frame; a command has more.
TEXTS = st.text(max_size=12)
NUMBERS = st.one_of(
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(-(1 << 70), 1 << 70),
    st.booleans(),
    TEXTS,
)
HEADERS = st.one_of(
    st.fixed_dictionaries(
        {
            "code": NUMBERS,
            "extFields": st.dictionaries(TEXTS, st.one_of(TEXTS, st.integers()), max_size=5),
            "flag": NUMBERS,
            "language": st.sampled_from(["JAVA", "GO", "NOBODY", "PYTHON"]),
            "opaque": NUMBERS,
            "version": NUMBERS,
        },
        optional={"serializeTypeCurrentRPC": TEXTS, "remark": TEXTS, "other": TEXTS},
    ),
    st.recursive(st.one_of(st.none(), NUMBERS), lambda inner: st.lists(inner, max_size=3)),
)


def frame(header: bytes, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


def decoded(data: bytes, item: tuple) -> object:
    """What becomes of an item, be it a frame or a command already."""
    if len(item) != FRAME_NUMBERS:
        return item
    _, start, body_start, end = item
    try:
        return decode_json_command(data[start:body_start], data[body_start:end])
    except CodecError as error:
        return str(error)


@given(
    st.lists(
        st.tuples(HEADERS, st.binary(max_size=9), st.booleans(), st.booleans()), max_size=4
    ),
    st.integers(0, 30),
)
def test_commands_of_json_frames_are_the_same(parts, cut):
    """Escapes, blanks, unknown keys, wrong types, and a frame that is not all there."""
    data = b"".join(
        frame(
            json.dumps(
                header,
                ensure_ascii=is_escaped,
                separators=(", ", ": ") if is_wide else (",", ":"),
            ).encode("utf-8", "surrogatepass"),
            body,
        )
        for header, body, is_escaped, is_wide in parts
    )
    data = data[: len(data) - cut] if cut < len(data) else data
    ours, position, are_commands = fast.read_commands(data, 0, LIMIT, HEADER_LIMIT, LANGUAGES)
    theirs, expected_position, _ = reference.read_commands(
        data, 0, LIMIT, HEADER_LIMIT, LANGUAGES
    )
    assert position == expected_position
    assert are_commands == all(len(item) != FRAME_NUMBERS for item in ours)
    assert [decoded(data, item) for item in ours] == [decoded(data, item) for item in theirs]


PLAIN = (
    b'{"code":310,"extFields":{"a":"P","i":"K\\u0001v\\u0002"},"flag":0,"language":"JAVA",'
    b'"opaque":7,"serializeTypeCurrentRPC":"JSON","version":453}'
)


@given(st.integers(0, len(PLAIN) - 1), st.binary(max_size=3), st.integers(0, 3))
def test_a_damaged_header_means_the_same_to_both(at, garbage, removed):
    data = frame(PLAIN[:at] + garbage + PLAIN[at + removed :], b"body")
    ours, _, _ = fast.read_commands(data, 0, LIMIT, HEADER_LIMIT, LANGUAGES)
    theirs, _, _ = reference.read_commands(data, 0, LIMIT, HEADER_LIMIT, LANGUAGES)
    assert [decoded(data, item) for item in ours] == [decoded(data, item) for item in theirs]


def test_what_official_clients_write_needs_no_second_look():
    data = frame(PLAIN, b"body")
    (command,), _, are_commands = fast.read_commands(data, 0, LIMIT, HEADER_LIMIT, LANGUAGES)
    assert are_commands
    assert command == decode_json_command(PLAIN, b"body")


@given(st.binary(max_size=64))
def test_garbage_ends_both_in_the_same_way(data):
    results: list[Any] = []
    for twin in (fast, reference):
        try:
            items, position, _ = twin.read_commands(data, 0, 64, HEADER_LIMIT, LANGUAGES)
            results.append(([decoded(data, item) for item in items], position))
        except CodecError as error:
            results.append((type(error), str(error)))
    assert results[0] == results[1]


LAYOUTS = {
    size: (RECORD_HEADS[bits].pack, RECORD_HEADS[bits].size + 2, bits)
    for size, bits in ((8, 0), (20, 0x10))
}
PUTS = st.tuples(
    st.integers(0, 2),  # which queue
    st.sampled_from([b"\1T", bytes([127]) + b"t" * 127, b"\0\x80" + b"t" * 128]),
    st.binary(max_size=40),
    st.binary(max_size=40),
    st.one_of(st.none(), st.integers(-(1 << 31), 1 << 40)),
    st.one_of(st.integers(-(1 << 31), (1 << 31) - 1), st.integers()),
    st.integers(0, 63),
    st.integers(0, 1 << 63),
    st.sampled_from([b"12345678", b"x" * 20, b"bad"]),
    st.integers(0, 3),
    st.integers(0, 1 << 40),
    st.sampled_from([0, 4, 8, 12]),
)


@given(st.lists(PUTS, max_size=6), st.integers(0, 700))
def test_records_and_queue_entries_are_the_same_bytes(parts, room):
    results: list[Any] = []
    for twin, end_type in ((fast, fast.QueueEnd), (sends, queue_ends.QueueEnd)):
        queues = [end_type(number) for number in range(3)]
        for number, queue in enumerate(queues):
            queue.next_offset = queue.max_offset = 10 * number
            queue.watched = number == 1
        puts = [(queues[number], *rest) for number, *rest in parts]
        content: list[Any] = []
        arrivals: list[Any] = []
        placed: list[Any] = []
        try:
            end = twin.pack_records(
                puts, 0, 1000, 1000 + room, LAYOUTS, 1_700_000_000_000, b"storehos",
                lambda queue_id: 5000 + queue_id, content, arrivals, placed,
            )  # fmt: skip
        except (struct.error, OverflowError, KeyError):
            # What is undone is what the arrivals tell.
            for arrival in arrivals:
                arrival[0].next_offset -= 1
            results.append(("refused", [queue.next_offset for queue in queues]))
            continue
        dirty: dict[Any, None] = {}
        full: list[Any] = []
        watched: dict[Any, list[int]] = {}
        twin.show_entries(arrivals, dirty, 60, full, watched)
        results.append(
            (
                end,
                b"".join(content),
                placed,
                [(queue.next_offset, queue.max_offset, bytes(queue.tail)) for queue in queues],
                [queue.queue_id for queue in dirty],
                [queue.queue_id for queue in full],
                {queue.queue_id: codes for queue, codes in watched.items()},
            )
        )
    assert results[0] == results[1]


@pytest.mark.parametrize("end_type", [fast.QueueEnd, queue_ends.QueueEnd])
def test_a_queue_is_its_end_and_more(end_type):
    queue = type("Queue", (end_type,), {"__slots__": ("__weakref__", "topic")})(7)
    assert (queue.queue_id, queue.next_offset, queue.max_offset) == (7, 0, 0)
    assert (queue.tail, queue.watched) == (bytearray(), False)
    queue.topic, queue.next_offset = "T", 1 << 62
    assert (queue.topic, queue.next_offset) == ("T", 1 << 62)
    assert not hasattr(queue, "__dict__")


def test_the_compiled_kernel_takes_no_other_object_for_the_end_of_a_queue():
    queue: Any = object()
    put = (queue, b"\1T", b"body", b"", 0, 0, 0, 0, bytes(8), 0, 0, 0)
    with pytest.raises(TypeError, match="QueueEnd"):
        fast.pack_records([put], 0, 0, 999, LAYOUTS, 1, bytes(8), lambda _: 0, [], [], [])
    with pytest.raises(TypeError, match="QueueEnd"):
        fast.show_entries([(queue, 0, 0, 100, 0)], {}, 4096, [], {})


@given(
    st.lists(
        st.tuples(
            st.one_of(st.integers(-(1 << 31), (1 << 31) - 1), st.integers()),
            st.one_of(st.none(), st.just('{"code":0,"msgId":"AB')),
            st.one_of(st.from_regex(r"\A[A-Za-z0-9]{0,40}\Z"), TEXTS),
            st.integers(0, (1 << 62) - 1),
            st.integers(0, (1 << 62) - 1),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_answers_are_the_same_bytes(parts):
    pending = [(opaque, start, key) for opaque, start, key, _, _ in parts]
    results = [(queue_offset, physical, 100) for _, _, _, queue_offset, physical in parts]
    answers = []
    for twin in (fast, sends):
        try:
            answers.append(twin.encode_answers(pending, results))
        except UnicodeEncodeError:
            answers.append("no latin-1")
    assert answers[0] == answers[1]


@given(
    st.integers(-2, 300),
    st.one_of(st.integers(-(1 << 31), (1 << 31) - 1), st.integers()),
    st.one_of(st.none(), TEXTS),
    st.dictionaries(TEXTS, TEXTS, max_size=4),
    st.sampled_from([0, 7, 1 << 20]),
)
def test_heads_of_answers_are_the_same_bytes(code, opaque, remark, named, body_size):
    heads = []
    for twin in (fast, requests):
        try:
            heads.append(twin.encode_answer_head(code, opaque, remark, named, body_size))
        except TypeError:
            heads.append("no UTF-8")
    assert heads[0] == heads[1]


def test_the_kernel_can_be_chosen():
    for choice in ("reference", "fast"):
        environment = {**os.environ, "COMETMQ_KERNEL": choice}
        command = [sys.executable, "-c", "from cometmq import kernel; print(kernel.KERNEL)"]
        said = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=30, check=True
        )
        assert said.stdout.strip() == choice


SENDS = st.tuples(
    TEXTS, st.integers(0, 1 << 31), TEXTS, TEXTS, st.integers(0, 1 << 31), TEXTS, st.binary()
)


@given(st.lists(st.one_of(st.binary(), SENDS), max_size=5))
def test_requests_become_the_same_frames(items):
    assert fast.encode_requests(items) == requests.encode_requests(items)


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


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5 << 20)), max_size=9),
    st.integers(0, 99),
)
def test_puts_are_counted_alike(puts, time_us):
    seen = []
    for twin, end_type in ((fast, fast.QueueEnd), (tallies, queue_ends.QueueEnd)):
        fresh: list[Any] = []
        above = twin.Tally("above", None, fresh)
        queues = [end_type(number) for number in range(3)]
        counted = [above, *(twin.Tally(f"{number}", above, fresh) for number in range(2))]
        queues[0].tally, queues[1].tally = counted[1:]  # Of the last nobody counts.
        for times in (1, 2):
            some = [(queues[number],) for number, _ in puts]
            twin.count_puts(some, [(0, 0, size) for _, size in puts], times * time_us)
            seen.append(sorted(tally.of for tally in fresh))
            for tally in fresh:
                tally.looked_at()
        above.add(2, 50, 3)
        seen.append([(t.count, t.size, t.time_us, t.times, t.sizes) for t in counted])
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]


SIZES = st.one_of(st.integers(88, 140), st.sampled_from([-1, 0, 90, 91, 1 << 30, -(1 << 31)]))


@given(st.lists(SIZES), st.binary(max_size=5), st.integers(0, 9), st.integers(-9, 1500))
def test_the_same_places_are_found_by_sizes(sizes, rest, position, last):
    chunk = b"." * position
    for size in sizes:
        chunk += struct.pack(">i", size) + bytes(max(min(size, 200) - 4, 0))
    chunk += rest
    found = records.record_places(chunk, position, last)
    assert fast.record_places(chunk, position, last) == found
    places = array("q", found[0]).tolist()
    assert all(position <= place <= last for place in places)
    assert [*places, found[1]] == sorted({*places, found[1]})


def longs(*numbers: int) -> bytes:
    return array("q", numbers).tobytes()


@given(st.binary(max_size=200), st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200))))
def test_the_same_crcs_match(chunk, spans):
    spans = [(min(a, b, len(chunk)), min(max(a, b), len(chunk))) for a, b in spans]
    crcs = [zlib.crc32(chunk[begin:end]) & 0x7FFFFFFF for begin, end in spans]
    crcs[::3] = [crc ^ 1 for crc in crcs[::3]]
    given = chunk, longs(*(a for a, _ in spans)), longs(*(b for _, b in spans)), longs(*crcs)
    found = records.crcs_match(*given)
    assert fast.crcs_match(*given) == found
    assert list(found) == [int(row % 3 > 0) for row in range(len(spans))]


@pytest.mark.parametrize("kernel", [records, fast])
@pytest.mark.parametrize(
    ("begin", "end"), [(-1, 2), (3, 2), (0, 6), (1 << 62, 1 << 62), (-(1 << 63), 0)]
)
def test_a_piece_outside_the_chunk_is_refused(kernel, begin, end):
    with pytest.raises(ValueError, match="of 5"):
        kernel.crcs_match(b"12345", longs(begin), longs(end), longs(0))
    with pytest.raises(ValueError, match="as many"):
        kernel.crcs_match(b"12345", longs(0, 0), longs(1), longs(0))


@given(st.binary(max_size=200), st.lists(st.tuples(st.integers(-1, 201), st.integers(-1, 201))))
def test_the_same_pieces_are_copied(chunk, spans):
    given = chunk, longs(*(a for a, _ in spans)), longs(*(b for _, b in spans))
    pieces = [chunk[a:b] if 0 <= a <= b <= len(chunk) else None for a, b in spans]
    room = sum(len(piece) for piece in pieces if piece)
    targets = []
    for kernel in (records, fast):
        target = bytearray(room)
        if None in pieces:
            with pytest.raises(ValueError, match=r"of|more"):
                kernel.copy_pieces(*given, memoryview(target))
        else:
            kernel.copy_pieces(*given, memoryview(target))
            assert target == b"".join(filter(None, pieces))
        targets.append(target)
    assert targets[0] == targets[1]


@pytest.mark.parametrize("kernel", [records, fast])
@pytest.mark.parametrize(
    ("places", "parts", "room", "why"),
    [
        ((0,), (5,), 4, "more than the 4"),
        ((0,), (4,), 5, "4 bytes for a room of 5"),
        ((0, 1), (1,), 2, "as many"),
        ((1 << 62,), (1 << 62,), 0, "of 5"),
        ((-(1 << 63),), (5,), 5, "of 5"),
        ((0,), ((1 << 63) - 1,), 5, "of 5"),
    ],
)
def test_pieces_that_do_not_fill_the_room_are_refused(kernel, places, parts, room, why):
    with pytest.raises(ValueError, match=why):
        kernel.copy_pieces(b"12345", longs(*places), longs(*parts), memoryview(bytearray(room)))


WITHOUT_ZLIB_NG = """
import sys, zlib
sys.modules["zlib_ng"] = None
from array import array
from cometmq.kernel import _walk, crc
assert crc.crc_address() == 0
chunk = bytes(range(256)) * 3
spans = [(begin, end) for begin in (0, 1, 7) for end in (7, 8, 100, 768)]
places, ends, said = (array("q", each).tobytes() for each in zip(
    *((begin, end, zlib.crc32(chunk[begin:end]) & 0x7FFFFFFF) for begin, end in spans)
))
print(_walk.crcs_match(chunk, places, ends, said) == bytes([1]) * len(spans))
print(sum(_walk.crcs_match(chunk[::-1], places, ends, said)) < len(spans))
"""


def test_crcs_are_the_same_without_zlib_ng():
    args = [sys.executable, "-c", WITHOUT_ZLIB_NG]
    run = subprocess.run(args, capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("True\nTrue\n", "")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere its module may hide it")
def test_zlib_ng_says_where_its_own_function_is():
    assert crc.crc_address()
