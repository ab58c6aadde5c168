# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""The compiled twin of `messages`: what a consumer gets, made from records; what is not plain is left to the caller."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp

from cometmq.kernel._bytes cimport get_u32, get_u64
from cometmq.kernel.records import HEAD
from cometmq.kernel.reference import MAGIC_V1 as _MAGIC_V1, RECORD_SIZE_MIN as _SIZE_MIN

cdef uint32_t MAGIC_V1 = _MAGIC_V1
cdef int64_t SIZE_MIN = _SIZE_MIN
cdef Py_ssize_t HEAD_SIZE = HEAD.size
cdef Py_ssize_t HOST_SIZE = 8
cdef str UNIQUE = "UNIQ_KEY"
cdef const char *DIGITS = b"0123456789ABCDEF"


def plain_messages(
    bytes body, Py_ssize_t position, queue, bytes topic, make, host_text, list messages
):
    """See `cometmq.kernel.messages.plain_messages`."""
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(body)
    cdef const uint8_t *at
    cdef const uint8_t *store_host = NULL
    cdef const uint8_t *born_host = NULL
    cdef Py_ssize_t last = PyBytes_GET_SIZE(body) - HEAD_SIZE
    cdef int64_t block_at
    cdef object born_text = None, store_text = None
    if PyBytes_GET_SIZE(topic) > 127:
        return position
    while 0 <= position <= last:
        at = start + position
        block_at = _block_at(at, PyBytes_GET_SIZE(body) - position, topic)
        if not block_at:
            break
        properties = read_properties(at + block_at, <int32_t>get_u32(at) - block_at)
        if properties is None:
            break
        if born_host is NULL or memcmp(born_host, at + 48, HOST_SIZE) != 0:
            born_host = at + 48
            born_text = host_text(PyBytes_FromStringAndSize(<const char *>born_host, HOST_SIZE))
        if store_host is NULL or memcmp(store_host, at + 64, HOST_SIZE) != 0:
            store_host = at + 64
            store_text = host_text(PyBytes_FromStringAndSize(<const char *>store_host, HOST_SIZE))
        messages.append(_made(make, at, queue, properties, born_text, store_text))
        position += <int32_t>get_u32(at)
    return position


cdef inline object _made(
    object make, const uint8_t *at, object queue, dict properties, object born_text, object store_text
):
    """The message that `make` makes of a plain record."""
    cdef str offset_id = _offset_id(at)
    cdef PyObject *unique = PyDict_GetItem(properties, UNIQUE)
    return make(
        queue,
        <int64_t>get_u64(at + 20),
        offset_id if unique is NULL else <object>unique,
        offset_id,
        PyBytes_FromStringAndSize(<const char *>at + HEAD_SIZE, <int32_t>get_u32(at + 84)),
        properties,
        <int64_t>get_u64(at + 40),
        born_text,
        <int64_t>get_u64(at + 56),
        store_text,
        <int32_t>get_u32(at + 16),
        0,
        <int32_t>get_u32(at + 72),
        <int64_t>get_u64(at + 28),
        <int32_t>get_u32(at),
        get_u32(at + 8),
        <int64_t>get_u64(at + 76),
    )


cdef inline int64_t _block_at(const uint8_t *at, int64_t size_max, bytes topic) noexcept:
    """Where a plain record of a topic has its properties; 0 for any other record."""
    cdef int64_t size = <int32_t>get_u32(at), body_size = <int32_t>get_u32(at + 84), block_at
    cdef Py_ssize_t topic_size = PyBytes_GET_SIZE(topic)
    if (
        get_u32(at + 4) != MAGIC_V1
        or get_u32(at + 36) != 0
        or size > size_max
        or not 0 <= body_size <= size - SIZE_MIN
    ):
        return 0
    block_at = HEAD_SIZE + body_size + 1 + topic_size + 2
    if (
        block_at > size
        or at[HEAD_SIZE + body_size] != topic_size
        or memcmp(at + HEAD_SIZE + body_size + 1, PyBytes_AS_STRING(topic), topic_size) != 0
        or block_at + (at[block_at - 2] << 8 | at[block_at - 1]) != size
    ):
        return 0
    return block_at


cdef inline str _offset_id(const uint8_t *at):
    """The id of a record by its store host and place."""
    cdef char digits[32]
    put_hex(digits, at + 64)
    put_hex(digits + 16, at + 28)
    return PyUnicode_DecodeUTF8(digits, 32, NULL)


def plain_properties(bytes block):
    """See `cometmq.kernel.messages.plain_properties`."""
    return read_properties(<const uint8_t *>PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block))


cdef dict read_properties(const uint8_t *at, Py_ssize_t size):
    """The properties of a plain block; None of any other."""
    cdef const uint8_t *end = at + size
    cdef const uint8_t *name_end
    cdef const uint8_t *value_end
    cdef dict properties = {}
    while at < end:
        value_end = <const uint8_t *>memchr(at, 2, end - at)
        if value_end is NULL:
            return None
        name_end = <const uint8_t *>memchr(at, 1, value_end - at)
        if name_end is NULL or name_end == at or name_end + 1 == value_end:
            return None
        if memchr(name_end + 1, 1, value_end - name_end - 1) is not NULL:
            return None
        try:
            properties[
                PyUnicode_DecodeUTF8(<const char *>at, name_end - at, NULL)
            ] = PyUnicode_DecodeUTF8(
                <const char *>name_end + 1, value_end - name_end - 1, NULL
            )
        except UnicodeDecodeError:
            return None
        at = value_end + 1
    return properties


cdef inline void put_hex(char *to, const uint8_t *at) noexcept:
    """16 digits of 8 bytes."""
    cdef Py_ssize_t i
    for i in range(8):
        to[2 * i] = DIGITS[at[i] >> 4]
        to[2 * i + 1] = DIGITS[at[i] & 15]
