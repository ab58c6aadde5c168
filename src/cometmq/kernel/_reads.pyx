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
from cometmq.kernel._filters cimport DECLINED, PropertyFilter, TagCodes
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
from cometmq.kernel._plain_records cimport Parts, has_parts
from cometmq.kernel._text cimport PyUnicode_AsUTF8AndSize, get_decimal
from cometmq.kernel.filters import EFFORT_MAX as EFFORT
from cometmq.kernel.reads import ENTRIES_MAX as ENTRIES

cdef extern from "Python.h":
    int PyUnicode_IS_ASCII(object text)
    object PyType_GenericAlloc(type kind, Py_ssize_t count)
    int PyObject_GenericSetAttr(object of, object name, object value) except -1

cdef enum:
    EFFORT_MAX = 1048576

assert (ENTRIES_MAX, EFFORT_MAX) == (ENTRIES, EFFORT)


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


def plain_header(type kind not None, dict values not None, tuple rows not None):
    """See `cometmq.kernel.reads.plain_header`."""
    cdef object header = PyType_GenericAlloc(kind, 0)
    cdef tuple row
    cdef PyObject *text
    for row in rows:
        text = PyDict_GetItem(values, row[0])
        if text is NULL or <object>text is None:
            if row[2]:
                return None
            value = row[3]
        else:
            value = _value(<str>text, <str>row[1]) if type(<object>text) is str else None
            if value is None:
                return None
        PyObject_GenericSetAttr(header, row[4], value)
    return header


cdef bint _is_record(const uint8_t *record, int32_t size, int64_t place) noexcept nogil:
    """Whether a record says that it has this size and stands there."""
    cdef uint32_t magic = get_u32(record + RECORD_HEAD_MAGIC_AT)
    if <int32_t>get_u32(record + RECORD_HEAD_STORE_SIZE_AT) != size:
        return False
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        return False
    return <int64_t>get_u64(record + RECORD_HEAD_PHYSICAL_OFFSET_AT) == place


cdef int _passes(
    PropertyFilter wanted, const uint8_t *log, int64_t place, int32_t size, int64_t base, int64_t *effort
) noexcept:
    """Whether a record passes a filter, 1 or not; DECLINED: the record or its properties are not simple, or it takes long."""
    cdef Parts parts
    cdef Py_ssize_t at = place - base
    if not has_parts(log, at, at + size, base, &parts):
        return DECLINED
    effort[0] += (parts.after - parts.block_start) * wanted.count
    if effort[0] > EFFORT_MAX:
        return DECLINED
    return wanted.result(log + parts.block_start, parts.after - parts.block_start)


cdef bint choose_records(
    ChosenRecords *chosen, const uint8_t *at, const uint8_t *last, Py_ssize_t count_max, int64_t size_max, int64_t log_start,
    object match, const uint8_t *log, int64_t base, int64_t limit,
) except -1:
    """Choose the records of entries, as `plain_read`, maybe none; False where something is not simple.

    `limit` is the physical offset behind the log file's last byte.
    """
    cdef int64_t place, code
    cdef int32_t size
    cdef int passes
    cdef TagCodes codes = <TagCodes>match if type(match) is TagCodes else None
    cdef PropertyFilter wanted = <PropertyFilter>match if type(match) is PropertyFilter else None
    cdef bint is_function = match is not None and codes is None and wanted is None
    chosen.count = chosen.looked = chosen.effort = 0
    chosen.size, chosen.end = 0, -1
    if last - at > ENTRIES_MAX * QUEUE_ENTRY_SIZE or (last - at) % QUEUE_ENTRY_SIZE:
        return False
    while at < last:
        size = <int32_t>get_u32(at + QUEUE_ENTRY_SIZE_AT)
        if size <= 0 or (chosen.count and (chosen.count >= count_max or chosen.size + size > size_max)):
            break
        place = <int64_t>get_u64(at + QUEUE_ENTRY_PHYSICAL_OFFSET_AT)
        code = <int64_t>get_u64(at + QUEUE_ENTRY_TAGS_CODE_AT)
        at += QUEUE_ENTRY_SIZE
        chosen.looked += 1
        chosen.effort += QUEUE_ENTRY_SIZE
        if place < log_start or size == BLANK_SIZE or code == GAP_CODE:
            return False
        if codes is not None:
            if not codes.has(code):
                continue
        elif is_function and not match(code):
            continue
        if size < RECORD_SIZE_MIN or place < chosen.end or place < base or size > limit - place:
            return False
        if not _is_record(log + (place - base), size, place):
            return False
        chosen.end = place + size
        if wanted is not None:
            passes = _passes(wanted, log, place, size, base, &chosen.effort)
            if passes == DECLINED:
                return False
            if passes != 1:
                continue
        chosen.places[chosen.count], chosen.sizes[chosen.count] = place, size
        chosen.count += 1
        chosen.size += size
    return True


cdef uint8_t *put_records(uint8_t *at, ChosenRecords *chosen, const uint8_t *log, int64_t base) noexcept nogil:
    """Copy the records that were chosen; gives the place behind them."""
    cdef Py_ssize_t i
    for i in range(chosen.count):
        at = put_bytes(at, log + (chosen.places[i] - base), chosen.sizes[i])
    return at


def plain_read(
    tuple entries not None, Py_ssize_t count_max, int64_t size_max, int64_t log_start, match, view, int64_t base,
):
    """See `cometmq.kernel.reads.plain_read`."""
    cdef Py_ssize_t start = entries[1], stop = entries[2]
    cdef Py_buffer content, log
    cdef const uint8_t *first
    cdef const uint8_t *file
    cdef ChosenRecords chosen
    cdef bytes records
    PyObject_GetBuffer(entries[0], &content, PyBUF_SIMPLE)
    try:
        if start < 0 or not start <= stop <= content.len:
            return None
        PyObject_GetBuffer(view, &log, PyBUF_SIMPLE)
        try:
            first, file = <const uint8_t *>content.buf, <const uint8_t *>log.buf
            if not choose_records(
                &chosen, first + start, first + stop, count_max, size_max, log_start, match, file, base, base + log.len,
            ) or not chosen.looked:
                return None
            records = PyBytes_FromStringAndSize(NULL, chosen.size)
            put_records(<uint8_t *>PyBytes_AS_STRING(records), &chosen, file, base)
            return records, chosen.count, chosen.looked, chosen.end
        finally:
            PyBuffer_Release(&log)
    finally:
        PyBuffer_Release(&content)
