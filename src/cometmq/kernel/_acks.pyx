# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""The compiled twin of `acks`: acknowledgements of popped messages."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from cometmq.kernel._blocks cimport Span
from cometmq.kernel._bytes cimport get_u32, put_bytes, put_u32
from cometmq.kernel._layouts cimport (
    FRAME_HEAD_HEADER_AT,
    FRAME_HEAD_LENGTH_AT,
    FRAME_HEAD_SIZE,
)
from cometmq.kernel._scan cimport Head, is_name, read_head
from cometmq.kernel._text cimport PyUnicode_AsUTF8AndSize, decimal_size, put_decimal
from cometmq.kernel.acks import ACK_MESSAGE as ACK_CODE, DIGITS_MAX as DIGITS, PLACES_MAX as PLACES
from cometmq.kernel.heads import HEADER_SIZE_PLAIN as HEADER_MAX
from cometmq.model.flags import ONEWAY as ONEWAY_FLAG

cdef extern from "Python.h":
    int PyUnicode_IS_ASCII(object text)

cdef enum:
    PLACES_MAX = 64  # The room of an array.

assert PLACES_MAX == PLACES
cdef Py_ssize_t DIGITS_MAX = DIGITS
cdef int64_t ACK_MESSAGE = ACK_CODE
cdef uint32_t HEADER_SIZE_PLAIN = HEADER_MAX
cdef int32_t ONEWAY = ONEWAY_FLAG
cdef str HANDLE = "extraInfo", TOPIC = "topic", GROUP = "consumerGroup"
cdef str QUEUE = "queueId", OFFSET = "offset"


cdef struct Ack:
    # What an acknowledgement names; NULL: nothing. The handle is without its last word.
    Span handle
    Span topic
    Span group
    Span queue
    int64_t offset


cdef struct Run:
    # The one before, what `find` gave for it, and which of that are acknowledged.
    Ack named
    int64_t places[PLACES_MAX]
    Py_ssize_t count
    uint64_t mark
    bint is_any


cdef inline bint _is_same(Span *one, Span *other) noexcept:
    return one.size == other.size and memcmp(one.at, other.at, one.size) == 0


cdef inline int64_t _offset_of(Span *text) noexcept:
    """Read a field as a number of digits only; -1 for any other text."""
    cdef Py_ssize_t i
    cdef int64_t value = 0
    if text.at is NULL or not 0 < text.size <= DIGITS_MAX:
        return -1
    for i in range(text.size):
        if not c"0" <= text.at[i] <= c"9":
            return -1
        value = value * 10 + (text.at[i] - c"0")
    return value


cdef inline void _cut_handle(Span *handle) noexcept:
    """Leave what is in front of its last blank."""
    while handle.size > 0:
        handle.size -= 1
        if handle.at[handle.size] == c" ":
            return


cdef Py_ssize_t _keep_offsets(tuple offsets, int64_t *places) except -1:
    """Write the queue offsets of a check point into `places`; gives how many there are, 0 where they do not fit."""
    cdef Py_ssize_t i, count = len(offsets)
    if count > PLACES_MAX:
        return 0
    try:
        for i in range(count):
            places[i] = offsets[i]
    except OverflowError:
        return 0
    return count


cdef inline str _text(Span *span):
    return PyUnicode_DecodeASCII(<const char *>span.at, span.size, NULL)


cdef bint _take(Run *run, Ack *ack, object find, list marks) except -1:
    """Mark the message of an acknowledgement; False where it is not plain."""
    cdef Py_ssize_t place = 0
    if (
        not run.is_any or not _is_same(&ack.handle, &run.named.handle)
        or not _is_same(&ack.queue, &run.named.queue) or not _is_same(&ack.topic, &run.named.topic)
        or not _is_same(&ack.group, &run.named.group)
    ):
        found = find(_text(&ack.handle), _text(&ack.topic), _text(&ack.group), _text(&ack.queue))
        if found is None:
            return False
        if run.is_any:
            marks.append(run.mark)
        run.count = _keep_offsets(<tuple?>found, run.places)
        run.named, run.mark, run.is_any = ack[0], 0, True
    while place < run.count and run.places[place] != ack.offset:
        place += 1
    if place == run.count:
        return False
    run.mark |= <uint64_t>1 << place
    return True


cdef bint _field(dict fields, str name, Span *span) except -1:
    """Where a field stands that is text of ASCII; False for any other."""
    cdef PyObject *found = PyDict_GetItem(fields, name)
    if found is NULL or type(<object>found) is not str or not PyUnicode_IS_ASCII(<object>found):
        return False
    span.at = <const uint8_t *>PyUnicode_AsUTF8AndSize(<object>found, &span.size)
    return True


cdef bint _read_fields(dict fields, Ack *ack) except -1:
    """Read an acknowledgement from its fields; False where one is not plain."""
    cdef Span offset
    if not (
        _field(fields, HANDLE, &ack.handle) and _field(fields, TOPIC, &ack.topic)
        and _field(fields, GROUP, &ack.group) and _field(fields, QUEUE, &ack.queue)
        and _field(fields, OFFSET, &offset)
    ):
        return False
    _cut_handle(&ack.handle)
    ack.offset = _offset_of(&offset)
    return ack.offset >= 0


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
    cdef Run run
    cdef Ack ack
    run.is_any = False
    for command in commands:
        if (
            not _read_fields(<dict?>command[6], &ack) or not _is_32_bits(command[1])
            or not _is_32_bits(command[2]) or not _take(&run, &ack, find, marks)
        ):
            others.append(command)
        elif not <int32_t>command[1] & ONEWAY:
            opaques.append(command[2])
    if run.is_any:
        marks.append(run.mark)
    return marks, _answers(opaques, before, end), others


cdef bint _read_frame(const uint8_t *at, const uint8_t *end, Head *head, Ack *ack) noexcept:
    """Read the header of an acknowledgement; False where it is not plain, or none."""
    cdef Span name, value, offset
    cdef Py_ssize_t i
    if not read_head(at, end, head) or head.code != ACK_MESSAGE or head.flag & ~<int64_t>ONEWAY:
        return False
    ack.handle.at = ack.topic.at = ack.group.at = ack.queue.at = offset.at = NULL
    for i in range(head.count):
        name, value = head.names[i], head.values[i]
        if is_name(name.at, name.size, b"extraInfo", 9):
            ack.handle = value
        elif is_name(name.at, name.size, b"topic", 5):
            ack.topic = value
        elif is_name(name.at, name.size, b"consumerGroup", 13):
            ack.group = value
        elif is_name(name.at, name.size, b"queueId", 7):
            ack.queue = value
        elif is_name(name.at, name.size, b"offset", 6):
            offset = value
    if ack.handle.at is NULL or ack.topic.at is NULL or ack.group.at is NULL or ack.queue.at is NULL:
        return False
    _cut_handle(&ack.handle)
    ack.offset = _offset_of(&offset)
    return ack.offset >= 0


def take_acks(
    bytes data not None, Py_ssize_t position, Py_ssize_t count_max, find, bytes before not None, bytes end not None
):
    """See `cometmq.kernel.acks.take_acks`."""
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef const uint8_t *at
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data), count = 0
    cdef int64_t length
    cdef uint32_t header_size
    cdef list marks = [], opaques = []
    cdef Head head
    cdef Run run
    cdef Ack ack
    run.is_any = False
    while count < count_max and position <= size - FRAME_HEAD_SIZE:
        at = start + position
        length = <int32_t>get_u32(at + FRAME_HEAD_LENGTH_AT)
        header_size = get_u32(at + FRAME_HEAD_HEADER_AT)
        if length < 4 or length > size - position - 4 or header_size > HEADER_SIZE_PLAIN:
            break
        at += FRAME_HEAD_SIZE
        if header_size > length - 4 or not _read_frame(at, at + header_size, &head, &ack):
            break
        if not _take(&run, &ack, find, marks):
            break
        if not head.flag & ONEWAY:
            opaques.append(head.opaque)
        position += FRAME_HEAD_HEADER_AT + length
        count += 1
    if run.is_any:
        marks.append(run.mark)
    return position, count, marks, _answers(opaques, before, end)


cdef bytes _answers(list opaques, bytes before, bytes end):
    """Make the frames that answer some requests, one for each opaque."""
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
