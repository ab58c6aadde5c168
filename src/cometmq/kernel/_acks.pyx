# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""The compiled twin of `acks.plain_acks`: acknowledgements of popped messages."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from cometmq.kernel._bytes cimport put_bytes, put_u32
from cometmq.kernel._layouts cimport FRAME_HEAD_SIZE
from cometmq.kernel._text cimport PyUnicode_AsUTF8AndSize, decimal_size, put_decimal
from cometmq.kernel.acks import DIGITS_MAX as DIGITS, PLACES_MAX as PLACES
from cometmq.model.flags import ONEWAY as ONEWAY_FLAG

cdef extern from "Python.h":
    int PyUnicode_IS_ASCII(object text)

cdef enum:
    PLACES_MAX = 64  # The room of an array.

assert PLACES_MAX == PLACES
cdef Py_ssize_t DIGITS_MAX = DIGITS
cdef int32_t ONEWAY = ONEWAY_FLAG
cdef str HANDLE = "extraInfo", TOPIC = "topic", GROUP = "consumerGroup"
cdef str QUEUE = "queueId", OFFSET = "offset"


cdef str _text(dict fields, str name):
    """A field that is text of ASCII; None for any other."""
    cdef PyObject *found = PyDict_GetItem(fields, name)
    if found is NULL or type(<object>found) is not str or not PyUnicode_IS_ASCII(<object>found):
        return None
    return <str>found


cdef int64_t _offset_of(str text) except -2:
    """A number of digits only; -1 for any other text."""
    cdef Py_ssize_t size, i
    cdef const char *at = PyUnicode_AsUTF8AndSize(text, &size)
    cdef int64_t value = 0
    if not 0 < size <= DIGITS_MAX:
        return -1
    for i in range(size):
        if not c"0" <= at[i] <= c"9":
            return -1
        value = value * 10 + (at[i] - c"0")
    return value


cdef Py_ssize_t _handle_size(str handle, const char **at) except -1:
    """Where it stands, and how much of it is in front of its last blank."""
    cdef Py_ssize_t size
    at[0] = PyUnicode_AsUTF8AndSize(handle, &size)
    while size > 0:
        size -= 1
        if at[0][size] == c" ":
            return size
    return 0


cdef Py_ssize_t _keep_offsets(tuple offsets, int64_t *places) except -1:
    """Write them there; how many there are, or 0 where they do not fit."""
    cdef Py_ssize_t i, count = len(offsets)
    if count > PLACES_MAX:
        return 0
    try:
        for i in range(count):
            places[i] = offsets[i]
    except OverflowError:
        return 0
    return count


cdef bint _is_32_bits(object number):
    cdef int64_t value
    try:
        value = number
    except OverflowError:
        return False
    return INT32_MIN <= value <= INT32_MAX


def plain_acks(list commands, find, bytes before, bytes end):
    """See `cometmq.kernel.acks.plain_acks`."""
    cdef list marks = [], others = [], opaques = []
    cdef tuple command
    cdef dict fields
    cdef str handle, topic, group, queue, offset_text
    cdef str run_handle = None, run_topic = None, run_group = None, run_queue = None
    cdef const char *at
    cdef const char *run_at = NULL
    cdef Py_ssize_t size, run_size = 0, count = 0, place
    cdef int64_t places[PLACES_MAX]
    cdef int64_t offset
    cdef uint64_t mark = 0
    for command in commands:
        fields = <dict?>command[6]
        handle, topic, group = _text(fields, HANDLE), _text(fields, TOPIC), _text(fields, GROUP)
        queue, offset_text = _text(fields, QUEUE), _text(fields, OFFSET)
        offset = -1
        if not (handle is None or topic is None or group is None or queue is None or offset_text is None):
            offset = _offset_of(offset_text)
        if offset < 0 or not _is_32_bits(command[1]) or not _is_32_bits(command[2]):
            others.append(command)
            continue
        size = _handle_size(handle, &at)
        if (
            run_handle is None or size != run_size or memcmp(at, run_at, size) != 0
            or queue != run_queue or topic != run_topic or group != run_group
        ):
            found = find(handle[:size], topic, group, queue)
            if found is None:
                others.append(command)
                continue
            count = _keep_offsets(<tuple?>found, places)
            if run_handle is not None:
                marks.append(mark)
            run_handle, run_topic, run_group, run_queue = handle, topic, group, queue
            run_at, run_size, mark = at, size, 0
        place = 0
        while place < count and places[place] != offset:
            place += 1
        if place == count:
            others.append(command)
            continue
        mark |= <uint64_t>1 << place
        if not <int32_t>command[1] & ONEWAY:
            opaques.append(command[2])
    if run_handle is not None:
        marks.append(mark)
    return marks, _answers(opaques, before, end), others


cdef bytes _answers(list opaques, bytes before, bytes end):
    """One frame for each."""
    cdef Py_ssize_t before_size = PyBytes_GET_SIZE(before), end_size = PyBytes_GET_SIZE(end)
    cdef Py_ssize_t size, total = 0
    cdef bytes room
    cdef uint8_t *at
    for opaque in opaques:
        total += FRAME_HEAD_SIZE + before_size + decimal_size(<int32_t>opaque) + end_size
    room = PyBytes_FromStringAndSize(NULL, total)
    at = <uint8_t *>PyBytes_AS_STRING(room)
    for opaque in opaques:
        size = before_size + decimal_size(<int32_t>opaque) + end_size
        at = put_u32(at, <uint32_t>(4 + size))
        at = put_u32(at, <uint32_t>size)
        at = put_bytes(at, PyBytes_AS_STRING(before), before_size)
        at = put_decimal(at, <int32_t>opaque)
        at = put_bytes(at, PyBytes_AS_STRING(end), end_size)
    return room
