# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""The compiled twin of `sends.pack_records` and `reference.count_records`: records as the log keeps them."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cometmq.kernel._bytes cimport get_u32, get_u64, put_bytes, put_u16, put_u32, put_u64
from cometmq.kernel._crc cimport crc_of
from cometmq.kernel._layouts cimport (
    MAGIC_V1,
    MAGIC_V2,
    RECORD_FIXED_SIZE,
    RECORD_HEAD_MAGIC_AT,
    RECORD_HEAD_PHYSICAL_OFFSET_AT,
    RECORD_HEAD_STORE_SIZE_AT,
    RECORD_SIZE_MIN,
    TOPIC_BLOCK_V1_MAX,
)
from cometmq.kernel._queue_ends cimport QueueEnd
from cometmq.model.flags import TRANSACTION_COMMIT as _TRANSACTION_COMMIT

cdef int TRANSACTION_COMMIT = _TRANSACTION_COMMIT


cdef inline uint8_t *_put_record(
    uint8_t *at, tuple put, tuple layout, int32_t queue_id, int64_t queue_offset,
    int64_t position, int64_t store_ms, bytes store_host,
) except NULL:
    """Write one record, fields as `layouts.RECORD_HEAD` has them; gives where the next begins."""
    cdef bytes topic = <bytes>put[1], born_host = <bytes>put[8]
    cdef bytes body = <bytes>put[2] if type(put[2]) is bytes else bytes(put[2])
    cdef bytes properties = <bytes>put[3] if type(put[3]) is bytes else bytes(put[3])
    cdef Py_ssize_t body_size = PyBytes_GET_SIZE(body), topic_size = PyBytes_GET_SIZE(topic)
    cdef Py_ssize_t properties_size = PyBytes_GET_SIZE(properties)
    cdef Py_ssize_t host_size = PyBytes_GET_SIZE(born_host)
    if <int64_t>layout[1] != RECORD_FIXED_SIZE + host_size + PyBytes_GET_SIZE(store_host):
        raise ValueError("a layout for hosts of another kind")
    if properties_size > 0xFFFF:
        raise OverflowError("properties that are longer than a record can say")
    at = put_u32(
        at, <uint32_t>(<int64_t>layout[1] + body_size + topic_size + properties_size)
    )
    at = put_u32(at, MAGIC_V1 if topic_size <= TOPIC_BLOCK_V1_MAX else MAGIC_V2)
    at = put_u32(at, crc_of(<const uint8_t *>PyBytes_AS_STRING(body), body_size))
    at = put_u32(at, <uint32_t>queue_id)
    at = put_u32(at, <uint32_t><int32_t>put[5])
    at = put_u64(at, <uint64_t>queue_offset)
    at = put_u64(at, <uint64_t>position)
    at = put_u32(at, <uint32_t>(<int32_t>put[6] | <int32_t>layout[2]))
    at = put_u64(at, <uint64_t><int64_t>put[7])
    at = put_bytes(at, PyBytes_AS_STRING(born_host), host_size)
    at = put_u64(at, <uint64_t>store_ms)
    at = put_bytes(at, PyBytes_AS_STRING(store_host), PyBytes_GET_SIZE(store_host))
    at = put_u32(at, <uint32_t><int32_t>put[9])
    at = put_u64(at, <uint64_t><int64_t>put[10])
    at = put_u32(at, <uint32_t>body_size)
    at = put_bytes(at, PyBytes_AS_STRING(body), body_size)
    at = put_bytes(at, PyBytes_AS_STRING(topic), topic_size)
    at = put_u16(at, <uint32_t>properties_size)
    return put_bytes(at, PyBytes_AS_STRING(properties), properties_size)


def pack_records(
    list puts, Py_ssize_t first, int64_t position, int64_t end, dict layouts, int64_t store_ms,
    bytes store_host, due_ms, list content, list arrivals, list results,
):
    """See `cometmq.kernel.sends.pack_records`."""
    cdef Py_ssize_t index, last = first, count = len(puts)
    cdef int64_t total = 0, size, queue_offset
    cdef int32_t queue_id
    cdef tuple put, layout
    cdef bytes room
    cdef QueueEnd queue
    cdef object code = None
    cdef bint is_queued
    cdef uint8_t *at
    cdef uint8_t *after
    while last < count:
        put = <tuple>puts[last]
        size = _record_size(put, layouts)
        if position + total + size > end:
            break
        total += size
        last += 1
    if last == first:
        return first, position
    room = PyBytes_FromStringAndSize(NULL, total)
    at = <uint8_t *>PyBytes_AS_STRING(room)
    for index in range(first, last):
        put = <tuple>puts[index]
        layout = <tuple>layouts[len(<object>put[8])]
        queue = <QueueEnd?>put[0]
        queue_id, queue_offset = <int32_t>queue.queue_id, 0
        is_queued = <int>put[11] == 0 or <int>put[11] == TRANSACTION_COMMIT
        if is_queued:
            queue_offset = queue.next_offset
            code = due_ms(queue.queue_id) if put[4] is None else put[4]
        after = _put_record(
            at, put, layout, queue_id, queue_offset, position, store_ms, store_host
        )
        size, at = after - at, after
        if is_queued:
            queue.next_offset = queue_offset + 1
            arrivals.append((queue, queue_offset, position, size, code))
        results.append((queue_offset, position, size))
        position += size
    content.append(room)
    return last, position


cdef int64_t _record_size(tuple put, dict layouts) except -1:
    cdef tuple layout = <tuple>layouts[len(<object>put[8])]
    return (
        <int64_t>layout[1] + len(<object>put[2]) + PyBytes_GET_SIZE(<bytes>put[1])
        + len(<object>put[3])
    )


def count_records(const uint8_t[::1] piece):
    """See `cometmq.kernel.reference.count_records`."""
    cdef Py_ssize_t position = 0, end = piece.shape[0], count = 0
    cdef int64_t before = -1, place
    cdef int32_t size
    cdef uint32_t magic
    cdef const uint8_t *at
    while position < end:
        if end - position < RECORD_SIZE_MIN:
            return -1
        at = &piece[position]
        size = <int32_t>get_u32(at + RECORD_HEAD_STORE_SIZE_AT)
        magic = get_u32(at + RECORD_HEAD_MAGIC_AT)
        place = <int64_t>get_u64(at + RECORD_HEAD_PHYSICAL_OFFSET_AT)
        if (magic != MAGIC_V1 and magic != MAGIC_V2) or size < RECORD_SIZE_MIN:
            return -1
        if size > end - position or place <= before:
            return -1
        before = place
        position += size
        count += 1
    return count
