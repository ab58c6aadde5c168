# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""The compiled twin of `reads`: what a request for messages reads."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp

from cometmq.kernel._bytes cimport get_u32, get_u64, put_bytes
from cometmq.kernel._layouts cimport (
    BLANK_SIZE,
    GAP_CODE,
    MAGIC_V1,
    MAGIC_V2,
    QUEUE_ENTRY_PHYSICAL_OFFSET_AT,
    QUEUE_ENTRY_SIZE,
    QUEUE_ENTRY_SIZE_AT,
    QUEUE_ENTRY_TAGS_CODE_AT,
    RECORD_HEAD_MAGIC_AT,
    RECORD_HEAD_PHYSICAL_OFFSET_AT,
    RECORD_HEAD_STORE_SIZE_AT,
    RECORD_SIZE_MIN,
)
from cometmq.kernel._text cimport PyUnicode_AsUTF8AndSize, get_decimal
from cometmq.kernel.reads import ENTRIES_MAX as ENTRIES

cdef extern from "Python.h":
    int PyUnicode_IS_ASCII(object text)

cdef enum:
    ENTRIES_MAX = 1024  # The room of an array.

assert ENTRIES_MAX == ENTRIES


cdef object _value(str text, str kind):
    """The value of a header's field, a text or a number; None where it is not plain."""
    cdef Py_ssize_t size
    cdef bint is_good = False
    cdef const char *at
    cdef int64_t number
    if kind == "s":
        return text
    if not PyUnicode_IS_ASCII(text):
        return None
    at = PyUnicode_AsUTF8AndSize(text, &size)
    if kind == "i":
        number = get_decimal(<const uint8_t *>at, size, &is_good)
        return number if is_good else None
    if size == 4 and memcmp(at, b"true", 4) == 0:
        return True
    if size == 5 and memcmp(at, b"false", 5) == 0:
        return False
    return None


def plain_fields(dict values not None, tuple rows not None):
    """See `cometmq.kernel.reads.plain_fields`."""
    cdef list found = []
    cdef tuple row
    cdef PyObject *text
    for row in rows:
        text = PyDict_GetItem(values, row[0])
        if text is NULL or <object>text is None:
            if row[2]:
                return None
            found.append(row[3])
            continue
        if type(<object>text) is not str:
            return None
        value = _value(<str>text, <str>row[1])
        if value is None:
            return None
        found.append(value)
    return tuple(found)


cdef bint _is_record(const uint8_t *record, int32_t size, int64_t place) noexcept nogil:
    """Whether a record says that it has this size and stands there."""
    cdef uint32_t magic = get_u32(record + RECORD_HEAD_MAGIC_AT)
    if <int32_t>get_u32(record + RECORD_HEAD_STORE_SIZE_AT) != size:
        return False
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        return False
    return <int64_t>get_u64(record + RECORD_HEAD_PHYSICAL_OFFSET_AT) == place


cdef object _read(
    const uint8_t *at, const uint8_t *last, Py_ssize_t count_max, int64_t size_max, int64_t log_start, match,
    const uint8_t *log, int64_t base, int64_t limit,
):
    """The records of entries, as `plain_read`; `limit` is the physical offset behind the log file's last byte."""
    cdef const uint8_t *record
    cdef int64_t place, code, total = 0, end = -1
    cdef int64_t places[ENTRIES_MAX]
    cdef Py_ssize_t count = 0, looked = 0, i
    cdef int32_t size
    cdef bytes records
    cdef uint8_t *out
    while at < last:
        size = <int32_t>get_u32(at + QUEUE_ENTRY_SIZE_AT)
        if size <= 0 or (count and (count >= count_max or total + size > size_max)):
            break
        place = <int64_t>get_u64(at + QUEUE_ENTRY_PHYSICAL_OFFSET_AT)
        code = <int64_t>get_u64(at + QUEUE_ENTRY_TAGS_CODE_AT)
        at += QUEUE_ENTRY_SIZE
        looked += 1
        if place < log_start or size == BLANK_SIZE or code == GAP_CODE:
            return None
        if match is not None and not match(code):
            continue
        if size < RECORD_SIZE_MIN or place < end or place < base or size > limit - place:
            return None
        if not _is_record(log + (place - base), size, place):
            return None
        places[count] = place
        count += 1
        total += size
        end = place + size
    if not count:
        return None
    records = PyBytes_FromStringAndSize(NULL, total)
    out = <uint8_t *>PyBytes_AS_STRING(records)
    for i in range(count):
        record = log + (places[i] - base)
        out = put_bytes(out, record, get_u32(record + RECORD_HEAD_STORE_SIZE_AT))
    return records, count, looked, end


def plain_read(
    tuple entries not None, Py_ssize_t count_max, int64_t size_max, int64_t log_start, match, view, int64_t base,
):
    """See `cometmq.kernel.reads.plain_read`."""
    cdef Py_ssize_t start = entries[1], stop = entries[2]
    cdef Py_buffer content, log
    cdef const uint8_t *first
    PyObject_GetBuffer(entries[0], &content, PyBUF_SIMPLE)
    try:
        if start < 0 or not start <= stop <= content.len or stop - start > ENTRIES_MAX * QUEUE_ENTRY_SIZE:
            return None
        if (stop - start) % QUEUE_ENTRY_SIZE:
            return None
        PyObject_GetBuffer(view, &log, PyBUF_SIMPLE)
        try:
            first = <const uint8_t *>content.buf
            return _read(
                first + start, first + stop, count_max, size_max, log_start, match,
                <const uint8_t *>log.buf, base, base + log.len,
            )
        finally:
            PyBuffer_Release(&log)
    finally:
        PyBuffer_Release(&content)
