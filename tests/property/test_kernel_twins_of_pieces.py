"""The same as test_kernel_twins for pieces of bytes: where records stand, their CRCs, and copies."""

import struct
import subprocess
import sys
import zlib
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq import kernel as fast
from cometmq.kernel import crc, records
from tests.support.twin_turns import twin_timeout

pytestmark = [pytest.mark.compiled, pytest.mark.timeout(twin_timeout())]

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
