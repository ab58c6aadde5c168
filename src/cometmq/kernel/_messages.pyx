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
from cometmq.kernel._layouts cimport (
    HOST_V4_SIZE,
    MAGIC_V1,
    RECORD_HEAD_BODY_CRC_AT,
    RECORD_HEAD_BODY_SIZE_AT,
    RECORD_HEAD_BORN_HOST_AT,
    RECORD_HEAD_BORN_TIME_AT,
    RECORD_HEAD_FLAG_AT,
    RECORD_HEAD_MAGIC_AT,
    RECORD_HEAD_PHYSICAL_OFFSET_AT,
    RECORD_HEAD_PREPARED_OFFSET_AT,
    RECORD_HEAD_QUEUE_OFFSET_AT,
    RECORD_HEAD_RECONSUME_TIMES_AT,
    RECORD_HEAD_SIZE,
    RECORD_HEAD_STORE_HOST_AT,
    RECORD_HEAD_STORE_SIZE_AT,
    RECORD_HEAD_STORE_TIME_AT,
    RECORD_HEAD_SYS_FLAG_AT,
    RECORD_SIZE_MIN,
    SHORT_SIZE,
    TOPIC_SIZE_V1_MAX,
)
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
    cdef Py_ssize_t last = PyBytes_GET_SIZE(body) - RECORD_HEAD_SIZE
    cdef const uint8_t *host
    cdef int64_t block_at
    cdef int32_t size
    cdef object born_text = None, store_text = None
    if PyBytes_GET_SIZE(topic) > TOPIC_SIZE_V1_MAX:
        return position
    while 0 <= position <= last:
        at = start + position
        block_at = _block_at(at, PyBytes_GET_SIZE(body) - position, topic)
        if not block_at:
            break
        size = <int32_t>get_u32(at + RECORD_HEAD_STORE_SIZE_AT)
        properties = read_properties(at + block_at, size - block_at)
        if properties is None:
            break
        host = at + RECORD_HEAD_BORN_HOST_AT
        if born_host is NULL or memcmp(born_host, host, HOST_V4_SIZE) != 0:
            born_host = host
            born_text = host_text(PyBytes_FromStringAndSize(<const char *>host, HOST_V4_SIZE))
        host = at + RECORD_HEAD_STORE_HOST_AT
        if store_host is NULL or memcmp(store_host, host, HOST_V4_SIZE) != 0:
            store_host = host
            store_text = host_text(PyBytes_FromStringAndSize(<const char *>host, HOST_V4_SIZE))
        messages.append(_made(make, at, queue, properties, born_text, store_text))
        position += size
    return position


cdef inline object _made(
    object make, const uint8_t *at, object queue, dict properties, object born_text, object store_text
):
    """The message that `make` makes of a plain record."""
    cdef str offset_id = _offset_id(at)
    cdef PyObject *unique = PyDict_GetItem(properties, UNIQUE)
    return make(
        queue,
        <int64_t>get_u64(at + RECORD_HEAD_QUEUE_OFFSET_AT),
        offset_id if unique is NULL else <object>unique,
        offset_id,
        PyBytes_FromStringAndSize(
            <const char *>at + RECORD_HEAD_SIZE, <int32_t>get_u32(at + RECORD_HEAD_BODY_SIZE_AT)
        ),
        properties,
        <int64_t>get_u64(at + RECORD_HEAD_BORN_TIME_AT),
        born_text,
        <int64_t>get_u64(at + RECORD_HEAD_STORE_TIME_AT),
        store_text,
        <int32_t>get_u32(at + RECORD_HEAD_FLAG_AT),
        0,
        <int32_t>get_u32(at + RECORD_HEAD_RECONSUME_TIMES_AT),
        <int64_t>get_u64(at + RECORD_HEAD_PHYSICAL_OFFSET_AT),
        <int32_t>get_u32(at + RECORD_HEAD_STORE_SIZE_AT),
        get_u32(at + RECORD_HEAD_BODY_CRC_AT),
        <int64_t>get_u64(at + RECORD_HEAD_PREPARED_OFFSET_AT),
    )


cdef inline int64_t _block_at(const uint8_t *at, int64_t size_max, bytes topic) noexcept:
    """Where a plain record of a topic has its properties; 0 for any other record."""
    cdef int64_t size = <int32_t>get_u32(at + RECORD_HEAD_STORE_SIZE_AT), block_at
    cdef int64_t body_size = <int32_t>get_u32(at + RECORD_HEAD_BODY_SIZE_AT)
    cdef const uint8_t *topic_at
    cdef Py_ssize_t topic_size = PyBytes_GET_SIZE(topic)
    if (
        get_u32(at + RECORD_HEAD_MAGIC_AT) != MAGIC_V1
        or get_u32(at + RECORD_HEAD_SYS_FLAG_AT) != 0
        or size > size_max
        or not 0 <= body_size <= size - RECORD_SIZE_MIN
    ):
        return 0
    topic_at = at + RECORD_HEAD_SIZE + body_size
    block_at = RECORD_HEAD_SIZE + body_size + 1 + topic_size + SHORT_SIZE
    if (
        block_at > size
        or topic_at[0] != topic_size
        or memcmp(topic_at + 1, PyBytes_AS_STRING(topic), topic_size) != 0
        or block_at + (at[block_at - 2] << 8 | at[block_at - 1]) != size
    ):
        return 0
    return block_at


cdef inline str _offset_id(const uint8_t *at):
    """The id of a record by its store host and place."""
    cdef char digits[32]
    put_hex(digits, at + RECORD_HEAD_STORE_HOST_AT)
    put_hex(digits + 16, at + RECORD_HEAD_PHYSICAL_OFFSET_AT)
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
