# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""The compiled twin of `pulls`: the header of a pull without its numbers, and these."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memchr, memcmp, memcpy

from cometmq.kernel._bytes cimport get_u32
from cometmq.kernel._layouts cimport FRAME_HEAD_HEADER_AT, FRAME_HEAD_LENGTH_AT, FRAME_HEAD_SIZE
from cometmq.kernel._text cimport get_decimal
from cometmq.kernel.pulls import PULL_BEGIN, PULL_SIZE_MAX as SIZE_MAX

cdef enum:
    PULL_SIZE_MAX = 1024
    BEGIN_SIZE = 11
    QUEUE_ID = 0
    QUEUE_OFFSET = 1
    COMMIT_OFFSET = 2
    OPAQUE = 3
    NUMBERS = 4
    NONE = 4

assert PULL_SIZE_MAX == SIZE_MAX and len(PULL_BEGIN) == BEGIN_SIZE and PULL_BEGIN == b'{"code":11,'


# The header that was split last, where in it its numbers were cut out, and which one where: the next header is the same nearly
# always, but for these; so are its bytes then, whose hash is known.
cdef bytes _latest = b""
cdef Py_ssize_t[NUMBERS] _cuts
cdef int[NUMBERS] _order


cdef struct Split:
    # Where the header is being read and where it ends; what of it is copied up to where, and to where that was copied.
    const uint8_t *at
    const uint8_t *end
    const uint8_t *kept
    uint8_t *text
    uint8_t *out
    int64_t numbers[NUMBERS]
    bint is_found[NUMBERS]
    # Of those that were found where they were cut out, and which each of them is.
    Py_ssize_t cuts[NUMBERS]
    int order[NUMBERS]
    int count


cdef inline const uint8_t *_quote(const uint8_t *at, const uint8_t *end) noexcept nogil:
    return <const uint8_t *>memchr(at, c'"', end - at)


cdef inline const uint8_t *_end_of_number(const uint8_t *at, const uint8_t *end) noexcept nogil:
    while at < end and (c"0" <= at[0] <= c"9" or at[0] == c"-"):
        at += 1
    return at


cdef inline int _which(const uint8_t *name, Py_ssize_t size) noexcept nogil:
    """The number of a pull's header that has a name: its place among those that change, NONE for any other name."""
    if size == 6 and memcmp(name, b"opaque", 6) == 0:
        return OPAQUE
    if size == 7 and memcmp(name, b"queueId", 7) == 0:
        return QUEUE_ID
    if size == 11 and memcmp(name, b"queueOffset", 11) == 0:
        return QUEUE_OFFSET
    if size == 12 and memcmp(name, b"commitOffset", 12) == 0:
        return COMMIT_OFFSET
    return NONE


cdef inline bint _cut(Split *split, int which, const uint8_t *start, const uint8_t *end) noexcept nogil:
    """Keep a number of a header, and the bytes between it and the number before; False where it is no number, or was found already."""
    cdef bint is_good = False
    split.numbers[which] = get_decimal(start, end - start, &is_good)
    if not is_good or split.is_found[which]:
        return False
    split.is_found[which] = True
    memcpy(split.out, split.kept, start - split.kept)
    split.out += start - split.kept
    split.kept = end
    split.cuts[split.count] = split.out - split.text
    split.order[split.count] = which
    split.count += 1
    return True


cdef inline bint _take_value(Split *split, int which, const uint8_t *name_end) noexcept nogil:
    """Take the number behind a name that ends with this quote; False where there is none."""
    cdef const uint8_t *start = name_end + 2
    cdef const uint8_t *end
    if split.end - name_end < 3 or name_end[1] != c":":
        return False
    if which == OPAQUE:
        end = split.at = _end_of_number(start, split.end)
        return _cut(split, which, start, end)
    if start[0] != c'"':
        return False
    start += 1
    end = _quote(start, split.end)
    if end is NULL:
        return False
    split.at = end + 1
    return _cut(split, which, start, end)


cdef inline bint _split(Split *split) noexcept nogil:
    """Split a pull's header at its numbers, string by string; False where it is not written as clients write it."""
    cdef const uint8_t *name
    cdef const uint8_t *name_end
    cdef int which
    while True:
        name = _quote(split.at, split.end)
        if name is NULL:
            break
        name += 1
        name_end = _quote(name, split.end)
        if name_end is NULL:
            break
        split.at = name_end + 1
        which = _which(name, name_end - name)
        if which != NONE and not _take_value(split, which, name_end):
            return False
    return split.count == NUMBERS


cdef bint _is_latest(const uint8_t *at, const uint8_t *end, int64_t *numbers) noexcept:
    """Whether a header is the one that was split last but for its numbers, which are read then."""
    cdef const uint8_t *latest = <const uint8_t *>PyBytes_AS_STRING(_latest)
    cdef const uint8_t *start
    cdef Py_ssize_t size, same = 0
    cdef bint is_good = False
    cdef int i
    for i in range(NUMBERS):
        size = _cuts[i] - same
        if end - at < size or memcmp(at, latest + same, size) != 0:
            return False
        same = _cuts[i]
        start = at + size
        at = _end_of_number(start, end)
        numbers[_order[i]] = get_decimal(start, at - start, &is_good)
        if not is_good:
            return False
    size = PyBytes_GET_SIZE(_latest) - same
    return end - at == size and memcmp(at, latest + same, size) == 0


cdef bint _split_anew(const uint8_t *at, Py_ssize_t size, Split *split) except -1:
    """Split a header, which is the latest then; False where it is not plain."""
    global _latest
    cdef uint8_t text[PULL_SIZE_MAX]
    cdef int i
    if memchr(at, c"\\", size) is not NULL:
        return False
    split.at, split.end, split.kept, split.text, split.out, split.count = at, at + size, at, text, text, 0
    for i in range(NUMBERS):
        split.is_found[i] = False
    if not _split(split):
        return False
    memcpy(split.out, split.kept, split.end - split.kept)
    _latest = PyBytes_FromStringAndSize(<const char *>text, split.out - text + (split.end - split.kept))
    for i in range(NUMBERS):
        _cuts[i], _order[i] = split.cuts[i], split.order[i]
    return True


def split_pull(bytes data not None):
    """See `cometmq.kernel.pulls.split_pull`."""
    cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data) - FRAME_HEAD_SIZE
    cdef Split split
    if not BEGIN_SIZE <= size <= PULL_SIZE_MAX:
        return None
    if memcmp(at + FRAME_HEAD_SIZE, b'{"code":11,', BEGIN_SIZE) != 0:
        return None
    if get_u32(at + FRAME_HEAD_LENGTH_AT) != size + 4 or get_u32(at + FRAME_HEAD_HEADER_AT) != size:
        return None
    at += FRAME_HEAD_SIZE
    if not (_is_latest(at, at + size, split.numbers) or _split_anew(at, size, &split)):
        return None
    if not -0x80000000 <= split.numbers[OPAQUE] <= 0x7FFFFFFF:
        return None
    return (
        _latest, split.numbers[QUEUE_ID], split.numbers[QUEUE_OFFSET], split.numbers[COMMIT_OFFSET],
        split.numbers[OPAQUE],
    )

