# Plain records of the log: what they are, where their parts stand, and the queue entry that one asks for.
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp

from cometmq.kernel._bytes cimport get_u32, get_u64, put_u32, put_u64
from cometmq.kernel._crc cimport crc_of
from cometmq.kernel._layouts cimport (
    MAGIC_V1,
    QUEUE_ENTRY_PHYSICAL_OFFSET_AT,
    QUEUE_ENTRY_SIZE,
    QUEUE_ENTRY_SIZE_AT,
    QUEUE_ENTRY_TAGS_CODE_AT,
    RECORD_HEAD_BODY_CRC_AT,
    RECORD_HEAD_BODY_SIZE_AT,
    RECORD_HEAD_MAGIC_AT,
    RECORD_HEAD_PHYSICAL_OFFSET_AT,
    RECORD_HEAD_SIZE,
    RECORD_HEAD_STORE_SIZE_AT,
    RECORD_HEAD_SYS_FLAG_AT,
    RECORD_SIZE_MIN,
    SHORT_SIZE,
)
from cometmq.kernel._text cimport hash_on, is_ascii, is_named, property_size

cdef enum:
    HOSTS_V6 = 48  # BORN_HOST_V6 | STORE_HOST_V6 of cometmq.model.flags.


cdef struct Parts:
    Py_ssize_t after  # Places in the piece: behind the record,
    Py_ssize_t body_end  # where the topic's size stands,
    Py_ssize_t topic_end  # and the properties' size,
    Py_ssize_t block_start  # and the properties.


cdef inline bint has_parts(
    const uint8_t *start, Py_ssize_t position, Py_ssize_t end, int64_t offset, Parts *parts
) noexcept nogil:
    """Whether a record has the head and the sizes of a plain one, and where its parts are."""
    cdef const uint8_t *at = start + position
    cdef int64_t size = <int32_t>get_u32(at + RECORD_HEAD_STORE_SIZE_AT)
    cdef int64_t body_size = <int32_t>get_u32(at + RECORD_HEAD_BODY_SIZE_AT)
    cdef Py_ssize_t block_start
    if (
        get_u32(at + RECORD_HEAD_MAGIC_AT) != MAGIC_V1
        or <int32_t>get_u32(at + RECORD_HEAD_SYS_FLAG_AT) & HOSTS_V6
        or size > end - position
        or not 0 <= body_size <= size - RECORD_SIZE_MIN
        or <int64_t>get_u64(at + RECORD_HEAD_PHYSICAL_OFFSET_AT) != offset + position
    ):
        return False
    parts.after = position + size
    parts.body_end = position + RECORD_HEAD_SIZE + body_size
    parts.topic_end = parts.body_end + 1 + start[parts.body_end]
    parts.block_start = block_start = parts.topic_end + SHORT_SIZE
    if block_start > parts.after:
        return False
    return block_start + (start[block_start - 2] << 8 | start[block_start - 1]) == parts.after


cdef inline bint is_plain(
    const uint8_t *start, Py_ssize_t position, Py_ssize_t end, int64_t offset, Parts *parts
) noexcept nogil:
    """Whether a record is plain but for its topic and the CRC of its body, and where its parts are."""
    return (
        has_parts(start, position, end, offset, parts)
        and memchr(start + parts.block_start, 0, parts.after - parts.block_start) is NULL
    )


cdef inline bint is_same_topic(const uint8_t *last, const uint8_t *at) noexcept nogil:
    """Whether a topic is the last one, where that stands before it in the same piece; each behind its size in one byte."""
    return last is not NULL and memcmp(last, at, 1 + at[0]) == 0


cdef inline bint is_topic(bytes topic, const uint8_t *at) noexcept:
    """Whether a topic stands there, behind its size in one byte."""
    return (
        topic is not None
        and PyBytes_GET_SIZE(topic) == at[0]
        and memcmp(PyBytes_AS_STRING(topic), at + 1, at[0]) == 0
    )


cdef inline bytes topic_of(const uint8_t *start, const Parts *parts):
    """The topic of a record, from behind its size in one byte on."""
    return PyBytes_FromStringAndSize(
        <const char *>start + parts.body_end + 1, parts.topic_end - parts.body_end - 1
    )


cdef inline bint is_plain_topic(const uint8_t *at) noexcept nogil:
    """Whether the topic that stands there, behind its size in one byte, is ASCII without a zero."""
    return is_ascii(at + 1, at[0]) and memchr(at + 1, 0, at[0]) is NULL


cdef inline bint is_whole(const uint8_t *at, Py_ssize_t body_size) except -1:
    """Whether a record's body is what its checksum says."""
    return crc_of(at + RECORD_HEAD_SIZE, body_size) == get_u32(at + RECORD_HEAD_BODY_CRC_AT)


cdef inline bint usual_code(
    const uint8_t *block, Py_ssize_t size, const char *name, Py_ssize_t name_size, int64_t *code
) noexcept nogil:
    """The code of a message's tag, 0 where it has none; False where that is not ASCII, or a property begins with `name`."""
    cdef const uint8_t *at = block
    cdef const uint8_t *end = block + size
    cdef const uint8_t *tag = NULL
    cdef Py_ssize_t piece_size, tag_size = 0
    code[0] = 0
    while at < end:
        piece_size = property_size(at, end - at)
        if is_named(at, piece_size, b"TAGS\1", 5):
            tag, tag_size = at + 5, piece_size - 5
        elif piece_size >= name_size and at[0] == <uint8_t>name[0] and memcmp(at, name, name_size) == 0:
            return False
        at += piece_size + 1
    if tag is NULL:
        return True
    if not is_ascii(tag, tag_size):
        return False
    code[0] = <int32_t>hash_on(0, tag, tag_size)
    return True


cdef inline bint has_filled(Py_ssize_t size, Py_ssize_t size_max) noexcept nogil:
    """Whether with its last entry the tail of a queue, which has `size` bytes by now, has filled up, or once more as much."""
    return size >= size_max and size % size_max < QUEUE_ENTRY_SIZE


cdef inline int add_room(bytearray tail, Py_ssize_t size) except -1:
    """Give a tail room for one more entry; for as many again where it has 0, 2, 6, 14, ..., since it would move each time."""
    cdef Py_ssize_t count = size // QUEUE_ENTRY_SIZE
    if (count + 2) & (count + 1) == 0:
        PyByteArray_Resize(tail, 2 * (size + QUEUE_ENTRY_SIZE))
    PyByteArray_Resize(tail, size + QUEUE_ENTRY_SIZE)
    return 0


cdef inline int add_entry(bytearray entries, int64_t offset, uint32_t size, int64_t code) except -1:
    """Append a queue entry."""
    cdef Py_ssize_t before = PyByteArray_GET_SIZE(entries)
    cdef uint8_t *at
    add_room(entries, before)
    at = <uint8_t *>PyByteArray_AS_STRING(entries) + before
    put_u64(at + QUEUE_ENTRY_PHYSICAL_OFFSET_AT, <uint64_t>offset)
    put_u32(at + QUEUE_ENTRY_SIZE_AT, size)
    put_u64(at + QUEUE_ENTRY_TAGS_CODE_AT, <uint64_t>code)
    return 0
