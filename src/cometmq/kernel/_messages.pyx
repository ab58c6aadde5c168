# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""The compiled twin of `messages`: what a consumer gets, made from records; what is not plain is left to the caller."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memchr, memcmp

from cometmq.kernel._bytes cimport get_u32, get_u64, put_bytes
from cometmq.kernel._layouts cimport (
    MAGIC_V1,
    PROPERTIES_SIZE_MAX,
    RECORD_HEAD_BODY_SIZE_AT,
    RECORD_HEAD_MAGIC_AT,
    RECORD_HEAD_QUEUE_OFFSET_AT,
    RECORD_HEAD_SIZE,
    RECORD_HEAD_STORE_SIZE_AT,
    RECORD_HEAD_SYS_FLAG_AT,
    RECORD_SIZE_MIN,
    SHORT_SIZE,
    TOPIC_SIZE_V1_MAX,
)
from cometmq.kernel._slots cimport new_object, put_slot, slot_of
from cometmq.kernel._text cimport PyUnicode_AsUTF8AndSize, is_ascii
from cometmq.kernel.messages import plain_block as _any_block


def plain_messages(bytes body, Py_ssize_t position, queue, bytes topic, type kind not None, list messages):
    """See `cometmq.kernel.messages.plain_messages`."""
    cdef object queue_slot = slot_of(kind, "queue"), offset_slot = slot_of(kind, "queue_offset")
    cdef object body_slot = slot_of(kind, "body"), record_slot = slot_of(kind, "_record")
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(body)
    cdef const uint8_t *at
    cdef Py_ssize_t last = PyBytes_GET_SIZE(body) - RECORD_HEAD_SIZE
    cdef int64_t block_at
    cdef int32_t size, body_size
    cdef object message
    if PyBytes_GET_SIZE(topic) > TOPIC_SIZE_V1_MAX:
        return position
    while 0 <= position <= last:
        at = start + position
        block_at = _block_at(at, PyBytes_GET_SIZE(body) - position, topic)
        if not block_at:
            break
        size = <int32_t>get_u32(at + RECORD_HEAD_STORE_SIZE_AT)
        if not _are_plain(at + block_at, size - block_at):
            break
        body_size = <int32_t>get_u32(at + RECORD_HEAD_BODY_SIZE_AT)
        message = new_object(kind)
        put_slot(queue_slot, message, queue)
        put_slot(offset_slot, message, <int64_t>get_u64(at + RECORD_HEAD_QUEUE_OFFSET_AT))
        put_slot(
            body_slot, message, PyBytes_FromStringAndSize(<const char *>at + RECORD_HEAD_SIZE, body_size)
        )
        put_slot(record_slot, message, _without_body(at, block_at, size - block_at))
        messages.append(message)
        position += size
    return position


cdef inline bytes _without_body(const uint8_t *at, int64_t block_at, int64_t block_size):
    """Head and properties of a record."""
    cdef bytes record = PyBytes_FromStringAndSize(NULL, RECORD_HEAD_SIZE + block_size)
    cdef uint8_t *to = <uint8_t *>PyBytes_AS_STRING(record)
    put_bytes(put_bytes(to, at, RECORD_HEAD_SIZE), at + block_at, block_size)
    return record


cdef inline bint _are_plain(const uint8_t *at, Py_ssize_t size) except -1:
    """Whether a block of properties is plain, without making them where they are ASCII."""
    cdef const uint8_t *end = at + size
    cdef const uint8_t *value_end
    if not is_ascii(at, size):
        return read_properties(at, size) is not None
    while at < end:
        value_end = _value_end(at, end)
        if value_end is NULL:
            return False
        at = value_end + 1
    return True


cdef inline const uint8_t *_value_end(const uint8_t *at, const uint8_t *end) noexcept:
    """Where the value of a plain property ends that begins here; NULL where none does."""
    cdef const uint8_t *value_end = <const uint8_t *>memchr(at, 2, end - at)
    cdef const uint8_t *name_end
    if value_end is NULL:
        return NULL
    name_end = <const uint8_t *>memchr(at, 1, value_end - at)
    if name_end is NULL or name_end == at or name_end + 1 == value_end:
        return NULL
    return NULL if memchr(name_end + 1, 1, value_end - name_end - 1) is not NULL else value_end


cdef inline int64_t _block_at(const uint8_t *at, int64_t size_max, bytes topic) noexcept:
    """Find the properties of a plain record of a topic, as bytes from its begin on; 0 for any other record."""
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
        value_end = _value_end(at, end)
        if value_end is NULL:
            return None
        name_end = <const uint8_t *>memchr(at, 1, value_end - at)
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


def plain_block(dict properties not None):
    """See `cometmq.kernel.messages.plain_block`."""
    cdef Py_ssize_t total = 0
    cdef bytes block
    cdef uint8_t *at
    try:
        for name, value in properties.items():
            total += _plain_size(name) + _plain_size(value)
    except (TypeError, ValueError):
        return _any_block(properties)  # Not plain, or no texts.
    if total > PROPERTIES_SIZE_MAX:
        return None
    block = PyBytes_FromStringAndSize(NULL, total)
    at = <uint8_t *>PyBytes_AS_STRING(block)
    for name, value in properties.items():
        at = _put_text(_put_text(at, name, 1), value, 2)
    return block


cdef inline Py_ssize_t _plain_size(object text) except -1:
    """The bytes of a name or a value with its separator; ValueError where it has no place in a block."""
    cdef Py_ssize_t size
    cdef const char *at = PyUnicode_AsUTF8AndSize(text, &size)
    if size == 0 or memchr(<void *>at, 1, size) is not NULL or memchr(<void *>at, 2, size) is not NULL:
        raise ValueError("not plain")
    return size + 1


cdef inline uint8_t *_put_text(uint8_t *at, object text, uint8_t separator) except NULL:
    cdef Py_ssize_t size
    cdef const char *content = PyUnicode_AsUTF8AndSize(text, &size)
    at = put_bytes(at, content, size)
    at[0] = separator
    return at + 1
