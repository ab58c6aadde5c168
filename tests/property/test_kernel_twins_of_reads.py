"""The same as test_kernel_twins for requests that read: fields of headers, records that queue entries name."""

import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.codec.fields import _decode_carefully, decode_fields
from cometmq.codec.headers.pull import PullRequest
from cometmq.codec.remoting import Command, encode_command
from cometmq.kernel import layouts, pulls, reads, reference
from cometmq.model.errors import RequestError
from tests.support.twin_turns import twin_timeout

try:
    from tests.support import compiled_kernel as fast
except ImportError:
    if shutil.which("cc") or shutil.which("gcc"):
        raise
    pytest.skip("no C compiler here, so no compiled kernel", allow_module_level=True)

pytestmark = pytest.mark.timeout(twin_timeout())

VALUES = st.one_of(
    st.integers(-(1 << 70), 1 << 70).map(str),
    st.sampled_from(
        ["true", "false", "True", "0", "-0", "007", "+1", " 1", "1_0", "9" * 18, "9" * 19, "", "-", "٣", "ü", 1, True, None]
    ),
)  # fmt: skip
ROWS = (
    ("s", "s", True, None), ("i", "i", True, None), ("b", "b", False, True),
    ("n", "i", False, None), ("t", "s", False, "x"),
)  # fmt: skip


@given(st.dictionaries(st.sampled_from("sibntz"), VALUES))
def test_fields_are_the_same(values):
    assert fast.plain_fields(values, ROWS) == reads.plain_fields(values, ROWS)


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

    assert read(decode_fields) == read(_decode_carefully)


PULL = {
    "consumerGroup": "G", "topic": "Orders", "queueId": "1", "queueOffset": "42", "maxMsgNums": "32",
    "sysFlag": "3", "commitOffset": "0", "subscription": "*", "bname": "b",
}  # fmt: skip
PIECES = st.sampled_from([
    b"", b'"', b"\\", b'"opaque":7', b'"queueId":"1"', b'"queueId":', b":", b"-", b"00", b"9" * 19, b"opaque", b"\xff", b",",
])  # fmt: skip


@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(("queueId", "queueOffset", "topic", "x"), VALUES)),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(0, 400), PIECES, st.integers(0, 3),
)  # fmt: skip
def test_headers_of_pulls_are_split_alike(fields, opaque, at, piece, removed):
    """Whole and damaged; what comes out of a whole one is what it says."""
    texts = PULL | {name: str(value) for name, value in fields.items()}
    frame = encode_command(Command(11, opaque=opaque, fields=texts))
    split = fast.split_pull(frame)
    assert split == pulls.split_pull(frame)
    if texts == PULL:
        assert split is not None
        assert split[1:] == (1, 42, 0, opaque)
        assert len(split[0]) == len(frame) - 8 - len(f"1420{opaque}")
    header = frame[8:]
    at %= len(header)
    header = header[:at] + piece + header[at + removed :]
    for length, kind in ((4, 0), (5, 0), (4, 1 << 24)):
        damaged = (length + len(header)).to_bytes(4) + (kind | len(header)).to_bytes(4) + header
        assert fast.split_pull(damaged) == pulls.split_pull(damaged)


TEXTS = st.one_of(
    st.integers(-(1 << 63), 1 << 63).map(str), st.integers(0, 9).map(str),
    st.sampled_from(["", "-", "007", "1-", '1"', '1","x":"1', "1\\", "9" * 18, "9" * 19, "1,", " 1", "\xff"]),
)  # fmt: skip
HEADERS = st.sampled_from([
    '{"code":11,"extFields":{"queueId":"%s","queueOffset":"%s","commitOffset":"%s"},"opaque":%s}',
    '{"code":11,"opaque":%s,"extFields":{"queueOffset":"%s","queueId":"%s","x":"1","commitOffset":"%s"}}',
])  # fmt: skip


@given(st.lists(st.tuples(HEADERS, st.tuples(TEXTS, TEXTS, TEXTS, TEXTS), st.sampled_from(["", "}"])), max_size=20))  # fmt: skip
def test_headers_that_come_one_behind_the_other_are_split_alike(given):
    """The compiled one looks at the header before, from which most differ in numbers alone."""
    for header, numbers, more in given:
        data = (header % numbers + more).encode("latin-1")
        frame = (4 + len(data)).to_bytes(4) + len(data).to_bytes(4) + data
        assert fast.split_pull(frame) == pulls.split_pull(frame)


@given(st.binary(max_size=30))
def test_what_is_no_pull_is_not_split(data):
    assert fast.split_pull(data) is None
    assert pulls.split_pull(data) is None


@given(st.lists(st.tuples(st.binary(max_size=9), st.integers() | st.integers(-9, 9)), max_size=20), st.integers(0, 1 << 24))  # fmt: skip
def test_heads_are_filled_alike(parts, body_size):
    """Of numbers of any size, and of more of them than the compiled one keeps by itself."""
    pieces, numbers = (*(piece for piece, _ in parts), b"}"), tuple(each for _, each in parts)
    filled = fast.filled_frame(pieces, numbers, body_size)
    assert filled == pulls.filled_frame(pieces, numbers, body_size)
    header = b"".join(b"%b%d" % part for part in parts) + b"}"
    lengths = (4 + len(header) + body_size).to_bytes(4) + len(header).to_bytes(4)
    assert filled == lengths + header


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
        assert found == (records, count, looked, runs[-1][1])
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
