"""The same as test_kernel_twins for requests that read: fields of headers, records that queue entries name."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq import kernel as fast
from cometmq.codec.fields import decode_carefully, decode_fields
from cometmq.codec.headers.pull import PullRequest
from cometmq.codec.remoting import Command, encode_command
from cometmq.kernel import layouts, pull_answers, reads, reference
from cometmq.kernel.rows import AnswerTerms, SplitPull
from cometmq.model.errors import RequestError
from cometmq.model.frozen import dataclass
from tests.support.twin_turns import twin_timeout

pytestmark = [pytest.mark.compiled, pytest.mark.timeout(twin_timeout())]

VALUES = st.one_of(
    st.integers(-(1 << 70), 1 << 70).map(str),
    st.sampled_from(
        ["true", "false", "True", "0", "-0", "007", "+1", " 1", "1_0", "9" * 18, "9" * 19, "", "-", "٣", "ü", 1, True, None]
    ),
)  # fmt: skip
ROWS = (
    ("s", "s", True, None, "text"), ("i", "i", True, None, "number"), ("b", "b", False, True, "flag"),
    ("n", "i", False, None, "other_number"), ("t", "s", False, "x", "other_text"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AnyHeader:
    text: str
    number: int
    flag: bool
    other_number: int | None
    other_text: str


_PLAIN = {
    "s": re.compile("(?s).*"),
    "i": re.compile("0|-?[1-9][0-9]{0,17}"),
    "b": re.compile("true|false"),
}
_MEANING: dict[str, Callable[[str], object]] = {"s": str, "i": int, "b": "true".__eq__}


@given(st.dictionaries(st.sampled_from("sibntz"), VALUES))
def test_fields_are_read_where_all_are_plain(values):
    found: list[Any] = []
    for name, kind, is_required, default, _ in ROWS:
        text = values.get(name)
        is_missing = text is None
        if (is_missing and is_required) or not (
            is_missing or (isinstance(text, str) and _PLAIN[kind].fullmatch(text))
        ):
            assert fast.plain_header(AnyHeader, values, ROWS) is None
            return
        found.append(default if is_missing else _MEANING[kind](text))
    assert fast.plain_header(AnyHeader, values, ROWS) == AnyHeader(*found)


@given(
    st.fixed_dictionaries(
        {"consumerGroup": st.just("G"), "topic": VALUES, "queueId": VALUES},
        optional=dict.fromkeys(
            ("queueOffset", "maxMsgNums", "sysFlag", "commitOffset", "bname", "subscription"), VALUES
        ),
    )
)  # fmt: skip
def test_a_header_is_what_it_is_when_read_with_care(values):
    """What the quick way gives is what the careful one does; what it leaves, the other refuses or reads."""

    def read(decode):
        try:
            return decode(PullRequest, values)
        except RequestError as error:
            return error.code, error.remark

    assert read(decode_fields) == read(decode_carefully)


PULL = {
    "consumerGroup": "G", "topic": "Orders", "queueId": "1", "queueOffset": "42", "maxMsgNums": "32",
    "sysFlag": "3", "commitOffset": "0", "subscription": "*", "bname": "b",
}  # fmt: skip
PIECES = st.sampled_from([
    b"", b'"', b"\\", b'"opaque":7', b'"queueId":"1"', b'"queueId":', b":", b"-", b"00", b"9" * 19, b"opaque", b"\xff", b",",
])  # fmt: skip


def split_of(frame: bytes) -> SplitPull | None:
    """The parts of a pull, which together are its header; None where it is left."""
    split = fast.split_pull(frame)
    if split is not None:
        header, *numbers = split
        for name, value in zip(
            ("queueId", "queueOffset", "commitOffset"), numbers, strict=False
        ):
            assert header.count(f'"{name}":""'.encode()) == 1
            header = header.replace(f'"{name}":""'.encode(), f'"{name}":"{value}"'.encode())
        # What looks like the word once more, within another text, is not cut.
        word, number = b'"opaque":', b"%d" % numbers[-1]
        parts = header.split(word)
        wholes = [
            word.join(parts[:count]) + word + number + word.join(parts[count:])
            for count in range(1, len(parts))
        ]
        assert frame[8:] in wholes
        assert frame[:8] == (len(frame) - 4).to_bytes(4) + (len(frame) - 8).to_bytes(4)
    return split


@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(("queueId", "queueOffset", "topic", "x"), VALUES)),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(0, 400), PIECES, st.integers(0, 3),
)  # fmt: skip
def test_headers_of_pulls_are_split_into_what_they_are(fields, opaque, at, piece, removed):
    """Whole and damaged; what comes out of a whole one is what it says."""
    texts = PULL | {name: str(value) for name, value in fields.items()}
    frame = encode_command(Command(11, opaque=opaque, fields=texts))
    split = split_of(frame)
    if texts == PULL:
        assert split is not None
        assert split[1:] == (1, 42, 0, opaque)
        assert len(split[0]) == len(frame) - 8 - len(f"1420{opaque}")
    header = frame[8:]
    at %= len(header)
    header = header[:at] + piece + header[at + removed :]
    for length, kind in ((4, 0), (5, 0), (4, 1 << 24)):
        damaged = (length + len(header)).to_bytes(4) + (kind | len(header)).to_bytes(4) + header
        split_of(damaged)


TEXTS = st.one_of(
    st.integers(-(1 << 63), 1 << 63).map(str), st.integers(0, 9).map(str),
    st.sampled_from(["", "-", "007", "1-", '1"', '1","x":"1', "1\\", "9" * 18, "9" * 19, "1,", " 1", "\xff"]),
)  # fmt: skip
HEADERS = st.sampled_from([
    '{"code":11,"extFields":{"queueId":"%s","queueOffset":"%s","commitOffset":"%s"},"opaque":%s}',
    '{"code":11,"opaque":%s,"extFields":{"queueOffset":"%s","queueId":"%s","x":"1","commitOffset":"%s"}}',
])  # fmt: skip


@given(st.lists(st.tuples(HEADERS, st.tuples(TEXTS, TEXTS, TEXTS, TEXTS), st.sampled_from(["", "}"])), max_size=20))  # fmt: skip
def test_so_are_headers_that_come_one_behind_the_other(given):
    """The compiled one looks at the header before, from which most differ in numbers alone."""
    for header, numbers, more in given:
        data = (header % numbers + more).encode("latin-1")
        frame = (4 + len(data)).to_bytes(4) + len(data).to_bytes(4) + data
        split_of(frame)


@given(st.binary(max_size=30))
def test_what_is_no_pull_is_not_split(data):
    assert fast.split_pull(data) is None


BASE = 1_000


def a_log(sizes: list[int]) -> tuple[bytearray, list[int]]:
    """Records of these sizes, one behind the other, of which only what is looked at is written."""
    log, places = bytearray(), []
    for size in sizes:
        place = BASE + len(log)
        record = bytearray(b"\1" * size)
        layouts.RECORD_MARK.struct.pack_into(record, 0, size, layouts.MAGIC_V1)
        record[28:36] = place.to_bytes(8)
        places.append(place)
        log += record
    return log, places


@given(
    st.data(),
    st.lists(st.integers(91, 200), min_size=1, max_size=8),
    st.integers(1, 9), st.integers(0, 900), st.sampled_from([0, BASE, BASE + 150]),
    st.one_of(st.none(), st.just({1})),
)  # fmt: skip
def test_records_of_entries_are_the_same(data, sizes, count_max, size_max, log_start, codes):
    """Chosen, out of order, deleted, damaged; and where something comes out it is what the careful way gives."""
    log, places = a_log(sizes)
    rows = list(zip(places, sizes, strict=True))
    taken = data.draw(
        st.lists(
            st.one_of(
                st.sampled_from(rows),
                st.sampled_from(
                    [(0, 100), (BASE, 91), (-5, 100), (BASE, layouts.BLANK_SIZE), (1 << 62, 100), (BASE, 0), (BASE, -1)]
                ),
            ),
            max_size=8,
        )
        if data.draw(st.booleans())
        else st.just(rows)
    )  # fmt: skip
    code = st.sampled_from([1, 1, 2, layouts.GAP_CODE])
    entries = b"".join(
        layouts.QUEUE_ENTRY.struct.pack(place, size, data.draw(code)) for place, size in taken
    )
    if data.draw(st.booleans()) and log:
        log[data.draw(st.integers(0, len(log) - 1))] ^= 1
    match = None if codes is None else codes.__contains__
    view = memoryview(log).toreadonly()
    limits = count_max, size_max, log_start, match
    front, behind = data.draw(st.integers(-1, 41)), data.draw(st.integers(-1, 41))
    place = front, front + len(entries)
    around = bytes(max(front, 0)) + entries + bytes(max(behind, 0))
    if data.draw(st.booleans()):
        place = front, len(around) - behind
    given = ((around, *place), *limits, view, BASE)
    found = fast.plain_read(*given)
    assert found == reads.plain_read(*given)
    if found is not None:
        runs, count, size, looked, removed = reference.choose_entries(
            around[slice(*place)], *limits
        )
        records = reference.gather(view, BASE, runs)
        assert found == (records, count, looked, runs[-1][1] if runs else -1)
        assert (len(records), removed, reference.count_records(records)) == (size, False, count)


@pytest.mark.parametrize("count", [0, 1_024, 1_025])
def test_many_entries_are_left_to_the_careful_way(count):
    log, (place,) = a_log([100])
    entries = layouts.QUEUE_ENTRY.struct.pack(place, 100, 1) + bytes(20) * (count - 1)
    for twin in (fast, reads):
        read = twin.plain_read((entries, 0, 20 * count), 9, 999, 0, None, memoryview(log), BASE)
        assert (read is None) == (count != 1_024)
        for start, stop in ((0, 19), (20, 0), (-20, 20), (0, 20 * max(count, 1) + 20)):
            placed = entries, start, stop
            assert twin.plain_read(placed, 9, 999, 0, None, memoryview(log), BASE) is None


PIECES_OF_HEAD = tuple(b"<%d>" % number for number in range(8))


def a_queue(entries: list[bytes], tail_start: int, low: int):
    """A queue whose first entries are in no tail, and those."""
    queue: Any = fast.QueueEnd(0)
    queue.min_offset, queue.tail_start, queue.max_offset = low, tail_start, len(entries)
    queue.tail += b"".join(entries[tail_start:])
    return queue


def files_of(log: bytearray, size: int, unmapped: int):
    """The log as files of one size, the last shorter; one of them is not mapped."""
    files = []
    for index, start in enumerate(range(0, max(len(log), 1), size)):
        file: Any = fast.MappedFile(BASE + start, BASE + start + size)
        if index != unmapped:
            file.mapped = memoryview(log)[start : start + size].toreadonly()
        files.append(file)
    return files


NEAR = st.sampled_from([1 << 30, 1 << 30, 1 << 30, 400, 0])
MOST = st.tuples(st.integers(1, 9), st.integers(0, 900))
FLAGS = st.integers(-(1 << 31), (1 << 31) - 1)
SELDOM = st.sampled_from([False] * 9 + [True])


def some_entries(data, log, places, sizes) -> list[bytes]:
    """The entries of records; seldom one of another size, that is deleted or of a damaged record."""
    codes = [data.draw(st.sampled_from([1, 1, 1, 2])) for _ in sizes]
    told = list(sizes)
    at = data.draw(st.integers(0, len(sizes) - 1))
    if data.draw(SELDOM):
        told[at] = data.draw(st.sampled_from([0, -1, 90, told[at] + 1, layouts.BLANK_SIZE]))
    if data.draw(SELDOM):
        codes[at] = layouts.GAP_CODE
    if data.draw(SELDOM):
        log[places[at] - BASE + data.draw(st.sampled_from([2, 6, 33]))] ^= 1
    rows = zip(places, told, codes, strict=True)
    return [layouts.QUEUE_ENTRY.struct.pack(*row) for row in rows]


@given(st.data(), st.lists(st.integers(91, 200), min_size=1, max_size=9))
def test_pulls_are_answered_with_what_a_read_with_care_gives(data, sizes):
    """From tails and from what is kept, near and far, of several files, with and without a map, deleted and damaged."""
    log, places = a_log(sizes)
    entries = some_entries(data, log, places, sizes)
    count = len(entries)
    low, offset = sorted(data.draw(st.integers(0, count)) for _ in range(2))
    low = 0 if data.draw(st.booleans()) else low
    tail_start, entry_count = data.draw(st.integers(0, count)), data.draw(st.integers(1, count))
    first, stop = data.draw(st.integers(0, offset)), data.draw(st.integers(offset, count))
    kept = None if data.draw(SELDOM) else (first, stop, b"".join(entries[first:stop]))
    match = data.draw(st.sampled_from([None, frozenset({1}).__contains__]))
    count_max, size_max = data.draw(MOST)
    terms = AnswerTerms(
        PIECES_OF_HEAD, count_max, size_max, match, 0, data.draw(FLAGS), data.draw(FLAGS), 7
    )
    warm_start = BASE + 150 if data.draw(SELDOM) else 0
    limits = data.draw(MOST), data.draw(MOST)
    near = data.draw(NEAR), data.draw(NEAR)
    size = data.draw(st.sampled_from([len(log), 500]))
    unmapped, opaque = data.draw(st.sampled_from([-1] * 5 + [0])), data.draw(FLAGS)
    queue = a_queue(entries, tail_start, low)
    reach = files_of(log, size, unmapped), BASE + len(log), warm_start, *near, limits
    answer = fast.pull_answer(terms, queue, offset, opaque, kept, entry_count, reach)
    if answer is not None:
        frame, body_size, messages, _ = answer
        head = frame[8 : len(frame) - body_size]
        lengths = (len(frame) - 4).to_bytes(4) + len(head).to_bytes(4)
        assert frame[:8] == lengths
        place = int.from_bytes(entries[offset][:8], signed=True)
        limit = limits[BASE + len(log) - place > near[1]]
        runs, count_read, _, _, _ = reference.choose_entries(
            b"".join(entries[offset : offset + entry_count]),
            min(count_max, limit[0]), min(size_max, limit[1]), BASE, match,
        )  # fmt: skip
        view = memoryview(log).toreadonly()
        assert frame[len(frame) - body_size :] == reference.gather(view, BASE, runs)
        assert count_read == messages
        numbers = [int(part.partition(b"<")[0]) for part in head.split(b">")[1:-1]]
        assert numbers[2:4] + numbers[6:] == [low, count, opaque]
        assert offset + messages <= numbers[1] <= count


def test_a_pull_of_a_mebibyte_and_more_is_left():
    """It would hold the others of its turn."""
    log, places = a_log([pull_answers.ANSWERED_SIZE_MAX, 91])
    entries = [
        layouts.QUEUE_ENTRY.struct.pack(place, size, 1)
        for place, size in zip(places, (pull_answers.ANSWERED_SIZE_MAX, 91), strict=True)
    ]  # fmt: skip
    most = 32, 1 << 28
    queue, files = a_queue(entries, 0, 0), files_of(log, len(log), -1)
    reach = files, BASE + len(log), 0, 1 << 30, 1 << 30, (most, most)
    for count, is_answered in ((1, True), (2, False)):
        terms = AnswerTerms(PIECES_OF_HEAD, count, 1 << 28, None, 0, 0, 0, 0)
        answer = fast.pull_answer(terms, queue, 0, 1, None, count, reach)
        assert (answer is not None) == is_answered
