# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""The compiled twin of `records` and `wanted`: steps over records of the log.

It takes plain records only, as its twins do; what is not plain is left to the caller.
"""

from cpython.buffer cimport (
    PyBUF_SIMPLE,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcmp, memcpy

from cometmq.kernel._bytes cimport get_u32, get_u64, put_u32, put_u64
from cometmq.kernel._crc cimport crc_of
from cometmq.kernel._layouts cimport (
    HOST_V4_SIZE,
    INDEX_ENTRY_KEY_HASH_AT,
    INDEX_ENTRY_PHYSICAL_OFFSET_AT,
    INDEX_ENTRY_PREVIOUS_AT,
    INDEX_ENTRY_SIZE,
    INDEX_KEY_KEY_HASH_AT,
    INDEX_KEY_PHYSICAL_OFFSET_AT,
    INDEX_KEY_SIZE,
    MAGIC_V1,
    QUEUE_ENTRY_PHYSICAL_OFFSET_AT,
    QUEUE_ENTRY_SIZE,
    QUEUE_ENTRY_SIZE_AT,
    QUEUE_ENTRY_TAGS_CODE_AT,
    RECORD_HEAD_BODY_CRC_AT,
    RECORD_HEAD_BODY_SIZE_AT,
    RECORD_HEAD_BORN_HOST_AT,
    RECORD_HEAD_BORN_TIME_AT,
    RECORD_HEAD_FLAG_AT,
    RECORD_HEAD_MAGIC_AT,
    RECORD_HEAD_PHYSICAL_OFFSET_AT,
    RECORD_HEAD_PREPARED_OFFSET_AT,
    RECORD_HEAD_QUEUE_ID_AT,
    RECORD_HEAD_QUEUE_OFFSET_AT,
    RECORD_HEAD_RECONSUME_TIMES_AT,
    RECORD_HEAD_SIZE,
    RECORD_HEAD_STORE_HOST_AT,
    RECORD_HEAD_STORE_SIZE_AT,
    RECORD_HEAD_STORE_TIME_AT,
    RECORD_HEAD_SYS_FLAG_AT,
    RECORD_SIZE_MIN,
    SHORT_SIZE,
)
from cometmq.kernel._plain_records cimport (
    Parts,
    add_entry,
    is_plain,
    is_plain_topic,
    is_same_topic,
    is_topic,
    is_whole,
    usual_code,
)
from cometmq.kernel._text cimport hash_on, is_ascii, last_value
from cometmq.kernel.keys import NOT_INDEXED as _NOT_INDEXED
from cometmq.kernel.records import RECORD_FIELDS as _FIELDS
from cometmq.model.flags import (
    INNER_BATCH as _INNER_BATCH,
    TRANSACTION_COMMIT as _TRANSACTION_COMMIT,
    TRANSACTION_MASK as _TRANSACTION_MASK,
)

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject *kind, Py_ssize_t count)

cdef Py_ssize_t FIELDS = _FIELDS
cdef uint32_t INNER_BATCH = _INNER_BATCH
cdef uint32_t TRANSACTION_COMMIT = _TRANSACTION_COMMIT
cdef uint32_t TRANSACTION_MASK = _TRANSACTION_MASK
cdef uint32_t NOT_INDEXED = _NOT_INDEXED


def plain_records(
    bytes chunk, Py_ssize_t position, int64_t offset, dict topics, type record_type, list records
):
    """See `cometmq.kernel.records.plain_records`."""
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(chunk)
    cdef const uint8_t *at
    cdef Py_ssize_t end = PyBytes_GET_SIZE(chunk)
    cdef Py_ssize_t last = end - RECORD_HEAD_SIZE
    cdef Parts parts
    cdef bytes body, topic_bytes = None, block, born_host = None, store_host = None
    cdef object topic = None
    if position < 0 or not issubclass(record_type, tuple):
        raise ValueError("a place in the piece, and a tuple type for its records")
    while position <= last and is_plain(start, position, end, offset, &parts):
        at = start + position
        if not is_topic(topic_bytes, start + parts.body_end):
            topic_bytes = chunk[parts.body_end + 1 : parts.topic_end]
            topic = topics.get(topic_bytes)
            if topic is None:
                break
        if not is_whole(at, parts.body_end - position - RECORD_HEAD_SIZE):
            break
        body = PyBytes_FromStringAndSize(
            <const char *>at + RECORD_HEAD_SIZE, parts.body_end - position - RECORD_HEAD_SIZE
        )
        block = PyBytes_FromStringAndSize(
            <const char *>start + parts.block_start, parts.after - parts.block_start
        )
        born_host = _host(at + RECORD_HEAD_BORN_HOST_AT, born_host)
        store_host = _host(at + RECORD_HEAD_STORE_HOST_AT, store_host)
        records.append(
            _record(
                record_type, at, parts.after - position, born_host, store_host, body, topic, block
            )
        )
        position = parts.after
    return position


def check_records(const uint8_t[::1] chunk, Py_ssize_t position, int64_t offset):
    """See `cometmq.kernel.records.check_records`."""
    cdef const uint8_t *start = &chunk[0]
    cdef const uint8_t *at
    cdef Py_ssize_t end = chunk.shape[0]
    cdef Py_ssize_t last = end - RECORD_HEAD_SIZE
    cdef const uint8_t *topic = NULL
    cdef Parts parts
    cdef uint32_t kinds = 0
    cdef int64_t store_ms = -1
    if position < 0:
        raise ValueError("a place in the piece")
    while position <= last and is_plain(start, position, end, offset, &parts):
        at = start + position
        if not is_same_topic(topic, start + parts.body_end):
            topic = start + parts.body_end
            if not is_plain_topic(topic):
                break
        if not is_whole(at, parts.body_end - position - RECORD_HEAD_SIZE):
            break
        kinds |= get_u32(at + RECORD_HEAD_SYS_FLAG_AT)
        store_ms = <int64_t>get_u64(at + RECORD_HEAD_STORE_TIME_AT)
        position = parts.after
    return position, kinds, store_ms


def record_places(const uint8_t[::1] chunk, Py_ssize_t position, Py_ssize_t last):
    """See `cometmq.kernel.records.record_places`."""
    cdef const uint8_t *start = &chunk[0]
    cdef Py_ssize_t end = chunk.shape[0], count = 0
    cdef int64_t size
    cdef int64_t *places
    if position < 0:
        raise ValueError("a place in the piece")
    last = min(last, end - 4)
    if position > last:
        return b"", position
    # As many as there can be; memory that is not written to is none.
    places = <int64_t *>malloc(((last - position) // RECORD_SIZE_MIN + 1) * sizeof(int64_t))
    if places is NULL:
        raise MemoryError
    while position <= last:
        size = <int32_t>get_u32(start + position)
        if size < RECORD_SIZE_MIN or size > end - position:
            break
        places[count] = position
        count += 1
        position += size
    try:
        return PyBytes_FromStringAndSize(<const char *>places, count * sizeof(int64_t)), position
    finally:
        free(places)


def crcs_match(bytes chunk, bytes places, bytes parts, bytes said):
    """See `cometmq.kernel.records.crcs_match`."""
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(chunk)
    cdef uint32_t crc
    cdef Py_ssize_t size = PyBytes_GET_SIZE(chunk), count = PyBytes_GET_SIZE(places) // 8, row
    cdef const int64_t *begins = <const int64_t *>PyBytes_AS_STRING(places)
    cdef const int64_t *ends = <const int64_t *>PyBytes_AS_STRING(parts)
    cdef const int64_t *crcs = <const int64_t *>PyBytes_AS_STRING(said)
    cdef bytes found = PyBytes_FromStringAndSize(NULL, count)
    cdef char *marks = PyBytes_AS_STRING(found)
    if not PyBytes_GET_SIZE(places) == PyBytes_GET_SIZE(parts) == PyBytes_GET_SIZE(said):
        raise ValueError("as many places as ends and CRCs")
    for row in range(count):
        if not 0 <= begins[row] <= ends[row] <= size:
            raise ValueError(f"bytes {begins[row]} to {ends[row]} of {size}")
        crc = crc_of(start + begins[row], ends[row] - begins[row])
        marks[row] = <int64_t>crc == crcs[row]
    return found


def copy_pieces(source, bytes places, bytes parts, target):
    """See `cometmq.kernel.records.copy_pieces`."""
    cdef const int64_t *starts = <const int64_t *>PyBytes_AS_STRING(places)
    cdef const int64_t *ends = <const int64_t *>PyBytes_AS_STRING(parts)
    cdef Py_ssize_t row, count = PyBytes_GET_SIZE(places) // 8, filled = 0
    cdef Py_buffer given, taken
    cdef int64_t size
    if PyBytes_GET_SIZE(places) != PyBytes_GET_SIZE(parts):
        raise ValueError("as many places as ends")
    PyObject_GetBuffer(source, &given, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(target, &taken, PyBUF_WRITABLE)
        try:
            for row in range(count):
                size = ends[row] - starts[row]
                if not 0 <= starts[row] <= ends[row] <= given.len:
                    raise ValueError(f"bytes {starts[row]} to {ends[row]} of {given.len}")
                if size > taken.len - filled:
                    raise ValueError(f"more than the {taken.len} bytes that there is room for")
                memcpy(<char *>taken.buf + filled, <char *>given.buf + starts[row], size)
                filled += size
            if filled != taken.len:
                raise ValueError(f"{filled} bytes for a room of {taken.len}")
        finally:
            PyBuffer_Release(&taken)
    finally:
        PyBuffer_Release(&given)


cdef object _record(
    type record_type, const uint8_t *at, int64_t size, bytes born_host, bytes store_host,
    bytes body, object topic, bytes block,
):
    """The fields of a record's head and what follows it, in the order of `codec.record.Record`."""
    cdef object record = PyType_GenericAlloc(<PyTypeObject *>record_type, FIELDS)
    _set(record, 0, size)
    _set(record, 1, get_u32(at + RECORD_HEAD_MAGIC_AT))
    _set(record, 2, get_u32(at + RECORD_HEAD_BODY_CRC_AT))
    _set(record, 3, <int32_t>get_u32(at + RECORD_HEAD_QUEUE_ID_AT))
    _set(record, 4, <int32_t>get_u32(at + RECORD_HEAD_FLAG_AT))
    _set(record, 5, <int64_t>get_u64(at + RECORD_HEAD_QUEUE_OFFSET_AT))
    _set(record, 6, <int64_t>get_u64(at + RECORD_HEAD_PHYSICAL_OFFSET_AT))
    _set(record, 7, <int32_t>get_u32(at + RECORD_HEAD_SYS_FLAG_AT))
    _set(record, 8, <int64_t>get_u64(at + RECORD_HEAD_BORN_TIME_AT))
    _set(record, 9, born_host)
    _set(record, 10, <int64_t>get_u64(at + RECORD_HEAD_STORE_TIME_AT))
    _set(record, 11, store_host)
    _set(record, 12, <int32_t>get_u32(at + RECORD_HEAD_RECONSUME_TIMES_AT))
    _set(record, 13, <int64_t>get_u64(at + RECORD_HEAD_PREPARED_OFFSET_AT))
    _set(record, 14, body)
    _set(record, 15, topic)
    _set(record, 16, block)
    return record


cdef inline bytes _host(const uint8_t *at, bytes last):
    """Make the bytes of a record's host; that of the record before is used again, which it mostly is."""
    if last is not None and memcmp(PyBytes_AS_STRING(last), at, HOST_V4_SIZE) == 0:
        return last
    return PyBytes_FromStringAndSize(<const char *>at, HOST_V4_SIZE)


cdef inline int _set(object record, Py_ssize_t place, object value) except -1:
    Py_INCREF(value)
    PyTuple_SET_ITEM(record, place, value)
    return 0


# --- verification


def wanted_entries(
    bytes chunk, Py_ssize_t position, int64_t offset, dict queues, bytearray keys not None
):
    """See `cometmq.kernel.wanted.wanted_entries`."""
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(chunk)
    cdef const uint8_t *at
    cdef Py_ssize_t end = PyBytes_GET_SIZE(chunk)
    cdef Py_ssize_t last = end - RECORD_HEAD_SIZE, count = 0, keys_size
    cdef int64_t tags_code = 0
    cdef Parts parts
    cdef const uint8_t *block
    cdef Py_ssize_t block_size
    cdef bytes topic = None
    cdef dict runs = None
    cdef list run = None
    cdef uint32_t begun = 0, sys_flag
    cdef object queue_offset
    if position < 0:
        raise ValueError("a place in the piece")
    while position <= last and is_plain(start, position, end, offset, &parts):
        at = start + position
        sys_flag = get_u32(at + RECORD_HEAD_SYS_FLAG_AT)
        if not is_topic(topic, start + parts.body_end):
            topic = chunk[parts.body_end + 1 : parts.topic_end]
            runs = queues.get(topic)
            if not topic.isascii():
                break
            begun = hash_on(0, start + parts.body_end + 1, PyBytes_GET_SIZE(topic))
            begun = hash_on(begun, b"#", 1)
        block, block_size = start + parts.block_start, parts.after - parts.block_start
        if runs is None or sys_flag & INNER_BATCH:
            break
        if not is_whole(at, parts.body_end - position - RECORD_HEAD_SIZE):
            break
        run = None
        if sys_flag & TRANSACTION_MASK in (0, TRANSACTION_COMMIT):
            run = runs.get(<int32_t>get_u32(at + RECORD_HEAD_QUEUE_ID_AT))
            queue_offset = <int64_t>get_u64(at + RECORD_HEAD_QUEUE_OFFSET_AT)
            if run is None or run[0] != queue_offset:
                break
            if not usual_code(block, block_size, b"INNER_MULTI_DISPATCH", 20, &tags_code):
                break
        if sys_flag & TRANSACTION_MASK != NOT_INDEXED:
            keys_size = PyByteArray_GET_SIZE(keys)
            if not _add_keys(keys, begun, offset + position, block, block_size):
                PyByteArray_Resize(keys, keys_size)
                break
        if run is not None:
            add_entry(run[1], offset + position, parts.after - position, tags_code)
            run[0] = queue_offset + 1
        position = parts.after
        count += 1
    return position, count


cdef bint _add_keys(
    bytearray keys, uint32_t begun, int64_t offset, const uint8_t *block, Py_ssize_t block_size
) except -1:
    """Append the index keys that a block of properties names; False where one is not ASCII."""
    cdef Py_ssize_t size = 0, word
    cdef const uint8_t *at = last_value(block, block_size, b"UNIQ_KEY\1", 9, &size)
    if at is not NULL:
        if not is_ascii(at, size):
            return False
        _add_key(keys, offset, hash_on(begun, at, size))
    at = last_value(block, block_size, b"KEYS\1", 5, &size)
    while at is not NULL and size:
        word = 0
        while word < size and at[word] != c" ":
            word += 1
        if not is_ascii(at, word):
            return False
        if word:
            _add_key(keys, offset, hash_on(begun, at, word))
        if word < size:
            word += 1
        at += word
        size -= word
    return True


cdef int _add_key(bytearray keys, int64_t offset, uint32_t code) except -1:
    """Append a key of the index."""
    cdef Py_ssize_t before = PyByteArray_GET_SIZE(keys)
    PyByteArray_Resize(keys, before + INDEX_KEY_SIZE)
    put_key(<uint8_t *>PyByteArray_AS_STRING(keys) + before, offset, index_hash(code))
    return 0


cdef inline uint8_t *put_key(uint8_t *at, int64_t offset, uint32_t code) noexcept nogil:
    put_u64(at + INDEX_KEY_PHYSICAL_OFFSET_AT, <uint64_t>offset)
    put_u32(at + INDEX_KEY_KEY_HASH_AT, code)
    return at + INDEX_KEY_SIZE


cdef inline uint32_t index_hash(uint32_t code) noexcept nogil:
    """Math.abs, and 0 for the one number that has none."""
    return (0 - code) & 0x7FFFFFFF if code >> 31 else code


def stored_keys(int32_t[::1] slots, int32_t number, bytes entries):
    """See `cometmq.kernel.wanted.stored_keys`."""
    cdef Py_ssize_t index, count = PyBytes_GET_SIZE(entries) // INDEX_ENTRY_SIZE
    cdef uint32_t slot_count = slots.shape[0], key_hash, slot
    cdef int32_t previous, fresh = 0
    cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(entries)
    cdef bytes keys = PyBytes_FromStringAndSize(NULL, count * INDEX_KEY_SIZE)
    cdef uint8_t *to = <uint8_t *>PyBytes_AS_STRING(keys)
    cdef bint is_chain_right = True
    if PyBytes_GET_SIZE(entries) % INDEX_ENTRY_SIZE:
        raise ValueError("whole entries of an index file")
    if slot_count == 0 and count:
        raise ZeroDivisionError("an index file without slots")
    for index in range(count):
        key_hash = get_u32(at + INDEX_ENTRY_KEY_HASH_AT)
        slot = index_hash(key_hash) % slot_count
        previous = slots[slot]
        if not 0 < previous < number:
            previous = 0
            fresh += 1
        if key_hash >> 31 or get_u32(at + INDEX_ENTRY_PREVIOUS_AT) != <uint32_t>previous:
            is_chain_right = False
        slots[slot] = number
        number += 1
        to = put_key(to, <int64_t>get_u64(at + INDEX_ENTRY_PHYSICAL_OFFSET_AT), key_hash)
        at += INDEX_ENTRY_SIZE
    return keys, fresh, is_chain_right
