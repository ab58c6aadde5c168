# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""Records, queue entries, answers and keys of sends that are columns."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cometmq.kernel._bytes cimport put_bytes, put_u16, put_u32, put_u64
from cometmq.kernel._columns cimport DELAY, EXTRA, TIMING, Row, SendBatch
from cometmq.kernel._crc cimport crc_of
from cometmq.kernel._layouts cimport (
    FRAME_HEAD_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    QUEUE_ENTRY_PHYSICAL_OFFSET_AT,
    QUEUE_ENTRY_SIZE,
    QUEUE_ENTRY_SIZE_AT,
    QUEUE_ENTRY_TAGS_CODE_AT,
    RECORD_FIXED_SIZE,
    TOPIC_BLOCK_V1_MAX,
)
from cometmq.kernel._plain_records cimport add_room, has_filled
from cometmq.kernel._queue_ends cimport QueueEnd
from cometmq.kernel._text cimport PyUnicode_AsUTF8AndSize, decimal_size, put_decimal
from cometmq.kernel.sends import (
    END as END_TEXT,
    KEY as KEY_TEXT,
    MIDDLE as MIDDLE_TEXT,
    OFFSET as OFFSET_TEXT,
    answers_of as _answers_of,
    encode_answers as _encode_any_answers,
)

cdef extern from "Python.h":
    int PyUnicode_IS_ASCII(object text)

cdef extern from *:
    void __builtin_prefetch(const void *at) nogil

cdef enum:
    OFFSET_DIGITS = 16  # Of the physical offset in a message id.
    # So many queues are on their way from memory while one is worked on; then their tails, and what these hold.
    ROWS_AHEAD = 12
    TAILS_AHEAD = 8
    ENDS_AHEAD = 4
    CACHE_LINE = 64

cdef const char *HEX_DIGITS = b"0123456789ABCDEF"
cdef bytes _offset = OFFSET_TEXT.encode(), _key = KEY_TEXT.encode()
cdef bytes _middle = MIDDLE_TEXT.encode(), _end = END_TEXT.encode()
cdef const char *OFFSET = _offset
cdef const char *KEY = _key
cdef const char *MIDDLE = _middle
cdef const char *END = _end
cdef Py_ssize_t OFFSET_SIZE = len(_offset), KEY_SIZE = len(_key)
cdef Py_ssize_t MIDDLE_SIZE = len(_middle), END_SIZE = len(_end)


cdef inline void _fetch(const void *at) noexcept nogil:
    """Have the processor fetch an object: it begins anywhere in a line of a cache, and has two."""
    __builtin_prefetch(at)
    __builtin_prefetch(<const char *>at + CACHE_LINE)


cdef inline void _fetch_queue(SendBatch batch, Py_ssize_t index):
    """Have the processor fetch the queue of a send: of very many none is in a cache."""
    if index < batch.count:
        _fetch(<void *>(<tuple>batch.rows[index].lane)[0])


cdef inline void _fetch_tail(SendBatch batch, Py_ssize_t index):
    """Have the processor fetch the tails of queues that are here, and the ends of tails that are."""
    cdef bytearray tail
    if index + TAILS_AHEAD < batch.packed:
        _fetch(<void *>(<QueueEnd>(<tuple>batch.rows[index + TAILS_AHEAD].lane)[0]).tail)
    if index + ENDS_AHEAD < batch.packed:
        tail = (<QueueEnd>(<tuple>batch.rows[index + ENDS_AHEAD].lane)[0]).tail
        __builtin_prefetch(PyByteArray_AS_STRING(tail) + PyByteArray_GET_SIZE(tail))


cdef inline uint8_t *_put_record(
    uint8_t *at, SendBatch batch, Row *row, bytes topic, bytes extra, bytes born_host, tuple layout,
    int32_t queue_id, int64_t store_ms, bytes store_host,
) except NULL:
    """Write one record, fields as `layouts.RECORD_HEAD` has them; gives where the next begins."""
    cdef Py_ssize_t topic_size = PyBytes_GET_SIZE(topic), suffix_size = PyBytes_GET_SIZE(batch.suffix)
    cdef Py_ssize_t extra_size = PyBytes_GET_SIZE(extra)
    at = put_u32(at, <uint32_t>row.size)
    at = put_u32(at, MAGIC_V1 if topic_size <= TOPIC_BLOCK_V1_MAX else MAGIC_V2)
    at = put_u32(at, crc_of(row.body, row.body_size))
    at = put_u32(at, <uint32_t>queue_id)
    at = put_u32(at, <uint32_t>row.flag)
    at = put_u64(at, <uint64_t>row.queue_offset)
    at = put_u64(at, <uint64_t>row.physical_offset)
    at = put_u32(at, <uint32_t><int32_t>layout[2])
    at = put_u64(at, <uint64_t>row.born_ms)
    at = put_bytes(at, PyBytes_AS_STRING(born_host), PyBytes_GET_SIZE(born_host))
    at = put_u64(at, <uint64_t>store_ms)
    at = put_bytes(at, PyBytes_AS_STRING(store_host), PyBytes_GET_SIZE(store_host))
    at = put_u32(at, <uint32_t>row.tried)
    at = put_u64(at, 0)
    at = put_u32(at, <uint32_t>row.body_size)
    at = put_bytes(at, row.body, row.body_size)
    at = put_bytes(at, PyBytes_AS_STRING(topic), topic_size)
    at = put_u16(at, <uint32_t>(row.block_size + extra_size + suffix_size))
    at = put_bytes(at, batch.text + row.block_at, row.block_size)
    if extra_size:
        at = put_bytes(at, PyBytes_AS_STRING(extra), extra_size)
    return put_bytes(at, PyBytes_AS_STRING(batch.suffix), suffix_size)


cdef int64_t _size_rows(
    SendBatch batch, Py_ssize_t first, Py_ssize_t *last, int64_t room, dict layouts, bytes store_host
) except -1:
    """The sizes of the records that there is room for; gives their sum. All messages of a request lie in one file."""
    cdef int64_t total = 0, before = 0
    cdef Py_ssize_t index, host = -1, fixed_size = 0, suffix_size = PyBytes_GET_SIZE(batch.suffix)
    cdef Row *row
    last[0] = first
    for index in range(first, batch.count):
        row = batch.rows + index
        if row.host != host:
            host = row.host
            fixed_size = (<tuple>layouts[len(<bytes>batch.hosts[host])])[1]
            if fixed_size != RECORD_FIXED_SIZE + len(<bytes>batch.hosts[host]) + len(store_host):
                raise ValueError("a layout for hosts of another kind")
        row.size = (
            fixed_size + row.body_size + row.block_size + suffix_size
            + PyBytes_GET_SIZE(<bytes>(<tuple>row.lane)[1])
            + PyBytes_GET_SIZE(<bytes>(<tuple>row.lane)[EXTRA])
        )
        if row.messages:
            last[0], before = index, total
        total += row.size
        if total > room:
            return before
    last[0] = batch.count
    return total


def pack_columns(
    SendBatch batch not None, Py_ssize_t first, int64_t position, int64_t end, dict layouts,
    int64_t store_ms, bytes store_host, list content,
):
    """See `cometmq.kernel.declines.pack_columns`."""
    cdef Py_ssize_t index, last = first, host = -1
    cdef int64_t total = _size_rows(batch, first, &last, end - position, layouts, store_host)
    cdef Row *row
    cdef tuple lane, last_lane = None, layout = None
    cdef bytes room, topic = None, extra = None, born_host = None
    cdef QueueEnd queue = None
    cdef int64_t queue_offset = 0, delay_ms = -1
    cdef int32_t queue_id = 0
    cdef uint8_t *at
    if last == first:
        return first, position
    room = PyBytes_FromStringAndSize(NULL, total)
    at = <uint8_t *>PyBytes_AS_STRING(room)
    for index in range(first, min(first + ROWS_AHEAD, last)):
        _fetch_queue(batch, index)
    for index in range(first, last):
        _fetch_queue(batch, index + ROWS_AHEAD)
        row = batch.rows + index
        lane = <tuple>row.lane
        if row.host != host:
            host = row.host
            born_host = <bytes>batch.hosts[host]
            layout = <tuple>layouts[len(born_host)]
        if lane is not last_lane:
            last_lane, queue, topic = lane, <QueueEnd?>lane[0], <bytes>lane[1]
            queue_id, extra, delay_ms = queue.queue_id, <bytes>lane[EXTRA], lane[DELAY]
        if delay_ms >= 0:
            row.tags_code = store_ms + delay_ms
        queue_offset = queue.next_offset
        row.queue_offset, row.physical_offset = queue_offset, position
        at = _put_record(
            at, batch, row, topic, extra, born_host, layout, queue_id, store_ms, store_host
        )
        queue.next_offset = queue_offset + 1
        batch.packed = index + 1
        position += row.size
    content.append(room)
    return last, position


def take_back(SendBatch batch not None):
    """See `cometmq.kernel.declines.take_back`."""
    cdef QueueEnd queue
    cdef Py_ssize_t index
    for index in range(batch.packed):
        queue = <QueueEnd?>(<tuple>batch.rows[index].lane)[0]
        queue.next_offset -= 1
    batch.packed = 0


def show_columns(
    SendBatch batch not None, dict dirty, Py_ssize_t tail_size_max, list full, dict watched
):
    """See `cometmq.kernel.declines.show_columns`."""
    cdef Py_ssize_t index, size
    cdef Row *row
    cdef QueueEnd queue
    cdef bytearray tail
    cdef uint8_t *at
    for index in range(min(ROWS_AHEAD, batch.packed)):
        _fetch_queue(batch, index)
    for index in range(batch.packed):
        _fetch_queue(batch, index + ROWS_AHEAD)
        _fetch_tail(batch, index)
        row = batch.rows + index
        queue = <QueueEnd?>(<tuple>row.lane)[0]
        tail = queue.tail
        size = PyByteArray_GET_SIZE(tail)
        if size == 0:
            dirty[queue] = None
        add_room(tail, size)
        at = <uint8_t *>PyByteArray_AS_STRING(tail) + size
        put_u64(at + QUEUE_ENTRY_PHYSICAL_OFFSET_AT, <uint64_t>row.physical_offset)
        put_u32(at + QUEUE_ENTRY_SIZE_AT, <uint32_t>row.size)
        put_u64(at + QUEUE_ENTRY_TAGS_CODE_AT, <uint64_t>row.tags_code)
        queue.max_offset = row.queue_offset + 1
        if has_filled(size + QUEUE_ENTRY_SIZE, tail_size_max):
            full.append(queue)
        if queue.watched:
            watched.setdefault(queue, []).append(row.tags_code)


cdef inline Py_ssize_t _key_size(Row *row):
    """The size of the unique key that the answer to a request names."""
    return 0 if row.is_unnamed else row.key_size


cdef inline Py_ssize_t _header_size(Row *row, str start, Py_ssize_t host_size):
    """The size of the header of an answer to the request that begins with a row: a batch message has an id for each of its messages."""
    return (
        len(start) + OFFSET_DIGITS + (row.messages - 1) * (OFFSET_DIGITS + 1 + host_size)
        + OFFSET_SIZE + decimal_size(row.queue_offset) + KEY_SIZE
        + _key_size(row) + MIDDLE_SIZE + decimal_size(row.opaque) + END_SIZE
    )


cdef inline uint8_t *_put_hex(uint8_t *at, uint64_t number) noexcept nogil:
    """Write a physical offset as the digits of a message id."""
    cdef int shift
    for shift in range(60, -4, -4):
        at[0] = HEX_DIGITS[(number >> shift) & 15]
        at += 1
    return at


cdef uint8_t *_put_ids(
    uint8_t *at, Row *row, const char *host, Py_ssize_t host_size
) noexcept:
    """Write the ids of the messages of a request behind the start of an answer, in which the first is begun."""
    cdef Py_ssize_t index
    at = _put_hex(at, row.physical_offset)
    for index in range(1, row.messages):
        at[0] = c","
        at = put_bytes(at + 1, host, host_size)
        at = _put_hex(at, row[index].physical_offset)
    return at


def answer_columns(SendBatch batch not None, Py_ssize_t first, Py_ssize_t last, str host not None):
    """See `cometmq.kernel.declines.answer_columns`."""
    return answers_to(batch, first, last, host)


cdef bytes answers_to(SendBatch batch, Py_ssize_t first, Py_ssize_t last, str host):
    """The same for compiled code."""
    cdef Py_ssize_t index, size, part = 0, host_size = 0, total = 0
    cdef Row *row
    cdef str start
    cdef bytes room
    cdef uint8_t *at
    cdef const char *host_at = PyUnicode_AsUTF8AndSize(host, &host_size)
    if not 0 <= first <= last <= batch.packed:
        raise IndexError("sends that are packed")
    for index in range(first, last):
        row = batch.rows + index
        start = <str?>(<tuple>row.lane)[2]
        if (
            not PyUnicode_IS_ASCII(start)
            or index + row.messages > batch.packed
            or (<tuple>row.lane)[TIMING] is not None
        ):
            return _encode_any_answers(*_answers_of(batch, first, last, host))
        if row.messages and not row.is_oneway:
            total += FRAME_HEAD_SIZE + _header_size(row, start, host_size)
    room = PyBytes_FromStringAndSize(NULL, total)
    at = <uint8_t *>PyBytes_AS_STRING(room)
    for index in range(first, last):
        row = batch.rows + index
        if row.is_oneway or not row.messages:
            continue
        start = <str>(<tuple>row.lane)[2]
        size = _header_size(row, start, host_size)
        at = put_u32(at, <uint32_t>(size + 4))
        at = put_u32(at, <uint32_t>size)
        at = put_bytes(at, PyUnicode_AsUTF8AndSize(start, &part), len(start))
        at = _put_ids(at, row, host_at, host_size)
        at = put_bytes(at, OFFSET, OFFSET_SIZE)
        at = put_decimal(at, row.queue_offset)
        at = put_bytes(at, KEY, KEY_SIZE)
        at = put_bytes(at, batch.text + row.key_at, _key_size(row))
        at = put_bytes(at, MIDDLE, MIDDLE_SIZE)
        at = put_decimal(at, row.opaque)
        at = put_bytes(at, END, END_SIZE)
    return room
