# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""The compiled twin of `pull_answers`: a pull that finds messages at a glance, from its offset to the frame that answers it."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t

from cometmq.kernel._bytes cimport get_u64, put_bytes, put_u32
from cometmq.kernel._filters cimport PropertyFilter, TagCodes
from cometmq.kernel._layouts cimport FRAME_HEAD_SIZE, QUEUE_ENTRY_PHYSICAL_OFFSET_AT, QUEUE_ENTRY_SIZE
from cometmq.kernel._mapped_files cimport MappedFile
from cometmq.kernel._queue_ends cimport QueueEnd
from cometmq.kernel._reads cimport ChosenRecords, choose_records, put_records
from cometmq.kernel._text cimport decimal_size, put_decimal
from cometmq.kernel.pull_answers import ANSWERED_SIZE_MAX as SIZE_MAX

cdef enum:
    ANSWERED_SIZE_MAX = 1048576
    NUMBERS = 7  # Of the answer's header.
    # Fields of the terms, and of what of the log may be read.
    PIECES = 0
    COUNT_MAX = 1
    BYTES_MAX = 2
    MATCH = 3
    NEAR_BROKER = 4
    FAR_BROKER = 5
    GROUP_FLAG = 6
    TOPIC_FLAG = 7
    NONE_PIECES = 8
    TERMS = 9
    FILES = 0
    WRITTEN = 1
    WARM_START = 2
    WARM_SIZE = 3
    NEAR_SIZE = 4
    LIMITS = 5
    REACH = 6

assert ANSWERED_SIZE_MAX == SIZE_MAX


cdef struct Placed:
    # Where entries stand in a piece of memory, and where they end.
    Py_ssize_t start
    Py_ssize_t stop


cdef object _at_hand(QueueEnd queue, int64_t offset, tuple kept, int64_t count, Placed *placed):
    """The piece that has the entries from a queue offset on, so many or the last of the tail; None: they are not at hand."""
    cdef int64_t first
    if offset >= queue.tail_start:
        placed.start = (offset - queue.tail_start) * QUEUE_ENTRY_SIZE
        placed.stop = min(placed.start + count * QUEUE_ENTRY_SIZE, <int64_t>len(queue.tail))
        return queue.tail
    if kept is None or len(kept) != 3:
        return None
    first = kept[0]
    if offset < first or offset + count > <int64_t>kept[1]:
        return None
    placed.start = (offset - first) * QUEUE_ENTRY_SIZE
    placed.stop = placed.start + count * QUEUE_ENTRY_SIZE
    return kept[2]


cdef MappedFile _file_of(list files, int64_t place, int64_t log_start):
    """The file of the log that has a physical offset, where it is mapped; else None."""
    cdef MappedFile file = <MappedFile?>files[0]
    cdef int64_t number = (place - log_start) // (file.end - log_start)
    if place < log_start or number >= len(files):
        return None
    file = <MappedFile?>files[number]
    return None if file.mapped is None else file


cdef bytes _answer(tuple pieces, int64_t *numbers, ChosenRecords *chosen, const uint8_t *log, int64_t base):
    """The frame: its header with a number between each two pieces, and the records."""
    cdef Py_ssize_t i, size = 0
    cdef bytes piece, frame
    cdef uint8_t *at
    if len(pieces) != NUMBERS + 1:
        raise ValueError("a header with another count of numbers")
    for i in range(NUMBERS + 1):
        piece = pieces[i]
        size += PyBytes_GET_SIZE(piece)
    for i in range(NUMBERS):
        size += decimal_size(numbers[i])
    frame = PyBytes_FromStringAndSize(NULL, FRAME_HEAD_SIZE + size + chosen.size)
    at = <uint8_t *>PyBytes_AS_STRING(frame)
    at = put_u32(put_u32(at, <uint32_t>(4 + size + chosen.size)), <uint32_t>size)
    for i in range(NUMBERS + 1):
        piece = pieces[i]
        at = put_bytes(at, PyBytes_AS_STRING(piece), PyBytes_GET_SIZE(piece))
        if i < NUMBERS:
            at = put_decimal(at, numbers[i])
    put_records(at, chosen, log, base)
    return frame


cdef object _found(
    tuple terms, QueueEnd queue, int64_t offset, int64_t opaque, const uint8_t *at, const uint8_t *last, tuple reach,
):
    """The answer with the messages of entries, or that none matched; None where it is none for here."""
    cdef list files = <list?>reach[FILES]
    cdef int64_t written = reach[WRITTEN]
    cdef int64_t first = <int64_t>get_u64(at + QUEUE_ENTRY_PHYSICAL_OFFSET_AT)
    cdef MappedFile file
    cdef Py_buffer log
    if not len(files):
        return None
    if first >= <int64_t>reach[WARM_START] and first >= written - <int64_t>reach[WARM_SIZE]:
        file = _file_of(files, first, (<MappedFile?>files[0]).start)
        if file is not None:
            PyObject_GetBuffer(file.mapped, &log, PyBUF_SIMPLE)
            try:
                return _of_file(
                    terms, queue, offset, opaque, at, last, reach, <const uint8_t *>log.buf, file.start, file.start + log.len
                )
            finally:
                PyBuffer_Release(&log)
    if type(terms[MATCH]) is not TagCodes:
        return None
    # That no entry has such a tag is seen without a record.
    return _of_file(terms, queue, offset, opaque, at, last, reach, NULL, INT64_MAX, INT64_MAX)


cdef object _of_file(
    tuple terms, QueueEnd queue, int64_t offset, int64_t opaque, const uint8_t *at, const uint8_t *last, tuple reach,
    const uint8_t *log, int64_t base, int64_t limit,
):
    """As `_found`; `limit` is the physical offset behind the last byte of the log file that begins at `base`."""
    cdef list files = reach[FILES]
    cdef int64_t written = reach[WRITTEN], near_size = reach[NEAR_SIZE]
    cdef int64_t first = <int64_t>get_u64(at + QUEUE_ENTRY_PHYSICAL_OFFSET_AT)
    cdef int64_t[NUMBERS] numbers
    cdef ChosenRecords chosen
    cdef tuple limits, pieces
    # A read through a property filter may find as much of old messages as of new ones, as on the slow path.
    cdef bint is_old = written - first > near_size and type(terms[MATCH]) is not PropertyFilter
    limits = (<tuple?>reach[LIMITS])[is_old]
    if not choose_records(
        &chosen, at, last,
        min(<int64_t>terms[COUNT_MAX], <int64_t>limits[0]), min(<int64_t>terms[BYTES_MAX], <int64_t>limits[1]),
        (<MappedFile?>files[0]).start, terms[MATCH], log, base, limit,
    ) or chosen.size > ANSWERED_SIZE_MAX or not chosen.looked:
        return None
    pieces = terms[PIECES] if chosen.count else terms[NONE_PIECES]
    if not len(pieces):
        return None
    numbers[0] = terms[NEAR_BROKER]
    if chosen.end >= 0 and written - chosen.end > near_size:
        numbers[0] = terms[FAR_BROKER]
    numbers[1] = offset + chosen.looked
    numbers[2], numbers[3] = queue.min_offset, queue.max_offset
    numbers[4], numbers[5], numbers[6] = terms[GROUP_FLAG], terms[TOPIC_FLAG], opaque
    return _answer(pieces, numbers, &chosen, log, base), chosen.size, chosen.count, chosen.effort


def pull_answer(
    terms, QueueEnd queue not None, int64_t offset, int64_t opaque, tuple kept, int64_t entry_count,
    tuple log not None,
):
    """See `cometmq.kernel.pull_answers.pull_answer`."""
    cdef Placed placed
    cdef Py_buffer content
    cdef object entries
    cdef const uint8_t *first
    if not isinstance(terms, tuple) or len(terms) != TERMS or len(log) != REACH:
        raise ValueError("rows of another kind")
    if not queue.min_offset <= offset < queue.max_offset or not 0 <= entry_count <= 1 << 32:
        return None
    entries = _at_hand(queue, offset, kept, entry_count, &placed)
    if entries is None:
        return None
    PyObject_GetBuffer(entries, &content, PyBUF_SIMPLE)
    try:
        if not 0 <= placed.start < placed.stop <= content.len:
            return None
        if placed.stop - placed.start < QUEUE_ENTRY_SIZE:
            return None
        first = <const uint8_t *>content.buf
        return _found(<tuple>terms, queue, offset, opaque, first + placed.start, first + placed.stop, log)
    finally:
        PyBuffer_Release(&content)
