# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""The compiled twin of `records`: steps over records of the log.

It takes plain records only, as its twin does; what is not plain is left to the caller.
"""

from zlib import crc32

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp

from cometmq.kernel._bytes cimport get_u32, get_u64
from cometmq.kernel.records import (
    CRC_MASK as _CRC_MASK,
    HEAD,
    HOSTS_V6 as _HOSTS_V6,
    RECORD_FIELDS as _FIELDS,
)
from cometmq.kernel.reference import MAGIC_V1 as _MAGIC_V1, RECORD_SIZE_MIN as _SIZE_MIN

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject *kind, Py_ssize_t count)

cdef uint32_t MAGIC_V1 = _MAGIC_V1
cdef uint32_t CRC_MASK = _CRC_MASK
cdef int32_t HOSTS_V6 = _HOSTS_V6
cdef int64_t SIZE_MIN = _SIZE_MIN
cdef Py_ssize_t HEAD_SIZE = HEAD.size
cdef Py_ssize_t FIELDS = _FIELDS


def plain_records(
    bytes chunk, Py_ssize_t position, int64_t offset, dict topics, type record_type, list records
):
    """See `cometmq.kernel.records.plain_records`."""
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(chunk)
    cdef const uint8_t *at
    cdef Py_ssize_t end = PyBytes_GET_SIZE(chunk)
    cdef Py_ssize_t last = end - HEAD_SIZE, after, body_end, topic_end, block_start
    cdef int64_t size, body_size
    cdef bytes body, topic_bytes = None, block
    cdef object topic = None
    if position < 0 or not issubclass(record_type, tuple):
        raise ValueError("a place in the piece, and a tuple type for its records")
    while position <= last:
        at = start + position
        size, body_size = <int32_t>get_u32(at), <int32_t>get_u32(at + 84)
        after = position + size
        if (
            get_u32(at + 4) != MAGIC_V1
            or <int32_t>get_u32(at + 36) & HOSTS_V6
            or size > end - position
            or not 0 <= body_size <= size - SIZE_MIN
            or <int64_t>get_u64(at + 28) != offset + position
        ):
            break
        body_end = position + HEAD_SIZE + body_size
        topic_end = body_end + 1 + start[body_end]
        block_start = topic_end + 2
        if (
            block_start > after
            or block_start + (start[topic_end] << 8 | start[topic_end + 1]) != after
            or memchr(start + block_start, 0, after - block_start) is not NULL
        ):
            break
        if (
            topic_bytes is None
            or PyBytes_GET_SIZE(topic_bytes) != start[body_end]
            or memcmp(PyBytes_AS_STRING(topic_bytes), start + body_end + 1, start[body_end]) != 0
        ):
            topic_bytes = chunk[body_end + 1 : topic_end]
            topic = topics.get(topic_bytes)
            if topic is None:
                break
        body = PyBytes_FromStringAndSize(<const char *>at + HEAD_SIZE, body_size)
        if <uint32_t>crc32(body) & CRC_MASK != get_u32(at + 8):
            break
        block = PyBytes_FromStringAndSize(<const char *>start + block_start, after - block_start)
        records.append(_record(record_type, at, size, body, topic, block))
        position = after
    return position


cdef object _record(
    type record_type, const uint8_t *at, int64_t size, bytes body, object topic, bytes block
):
    """The fields of a record's head and what follows it, in the order of `codec.record.Record`."""
    cdef object record = PyType_GenericAlloc(<PyTypeObject *>record_type, FIELDS)
    _set(record, 0, size)
    _set(record, 1, get_u32(at + 4))
    _set(record, 2, get_u32(at + 8))
    _set(record, 3, <int32_t>get_u32(at + 12))
    _set(record, 4, <int32_t>get_u32(at + 16))
    _set(record, 5, <int64_t>get_u64(at + 20))
    _set(record, 6, <int64_t>get_u64(at + 28))
    _set(record, 7, <int32_t>get_u32(at + 36))
    _set(record, 8, <int64_t>get_u64(at + 40))
    _set(record, 9, PyBytes_FromStringAndSize(<const char *>at + 48, 8))
    _set(record, 10, <int64_t>get_u64(at + 56))
    _set(record, 11, PyBytes_FromStringAndSize(<const char *>at + 64, 8))
    _set(record, 12, <int32_t>get_u32(at + 72))
    _set(record, 13, <int64_t>get_u64(at + 76))
    _set(record, 14, body)
    _set(record, 15, topic)
    _set(record, 16, block)
    return record


cdef inline int _set(object record, Py_ssize_t place, object value) except -1:
    Py_INCREF(value)
    PyTuple_SET_ITEM(record, place, value)
    return 0
