# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""The compiled twin of `keys`, and of the index in `reference`: hashes of keys, and their entries in an index file."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cometmq.kernel._bytes cimport put_u32, put_u64
from cometmq.kernel._columns cimport Row, SendBatch
from cometmq.kernel._layouts cimport (
    INDEX_ENTRY_KEY_HASH_AT,
    INDEX_ENTRY_PHYSICAL_OFFSET_AT,
    INDEX_ENTRY_PREVIOUS_AT,
    INDEX_ENTRY_SECONDS_AT,
    INDEX_ENTRY_SIZE,
    TOPIC_BLOCK_V1_MAX,
)
from cometmq.kernel._text cimport hash_on, is_ascii, last_value
from cometmq.kernel.keys import NOT_INDEXED as _NOT_INDEXED
from cometmq.kernel.records import RECORD_FIELDS as _RECORD_FIELDS
from cometmq.kernel.reference import java_hash_many as _hash_any
from cometmq.model.flags import TRANSACTION_MASK as _TRANSACTION_MASK

cdef int NOT_INDEXED = _NOT_INDEXED
cdef int TRANSACTION_MASK = _TRANSACTION_MASK
cdef Py_ssize_t RECORD_FIELDS = _RECORD_FIELDS


def java_hash_many(texts):
    """See `cometmq.kernel.reference.java_hash_many`."""
    cdef list hashes = []
    cdef object text
    cdef const uint8_t *at
    cdef Py_ssize_t size
    for text in texts:
        at, size = <const uint8_t *>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)
        if is_ascii(at, size):
            hashes.append(<int32_t>hash_on(0, at, size))
        else:
            hashes += _hash_any([text])
    return hashes


def index_insert(int32_t[::1] slots, int32_t number, hashes, offsets, seconds):
    """See `cometmq.kernel.reference.index_insert`."""
    cdef Py_ssize_t index, count = len(hashes)
    cdef uint32_t slot_count = slots.shape[0]
    cdef uint32_t key_hash, slot
    cdef int32_t previous, fresh = 0
    cdef bytes entries = PyBytes_FromStringAndSize(NULL, count * INDEX_ENTRY_SIZE)
    cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(entries)
    if len(offsets) != count or len(seconds) != count:
        raise ValueError("a hash, an offset and a time for each key")
    if slot_count == 0:
        raise ZeroDivisionError("an index file without slots")
    for index in range(count):
        key_hash = <uint32_t><int32_t>hashes[index]
        if key_hash >> 31:
            key_hash = (0 - key_hash) & 0x7FFFFFFF
        slot = key_hash % slot_count
        previous = slots[slot]
        if not 0 < previous < number:
            previous = 0
            fresh += 1
        put_u32(at + INDEX_ENTRY_KEY_HASH_AT, key_hash)
        put_u64(at + INDEX_ENTRY_PHYSICAL_OFFSET_AT, <uint64_t><int64_t>offsets[index])
        put_u32(at + INDEX_ENTRY_SECONDS_AT, <uint32_t><int32_t>seconds[index])
        put_u32(at + INDEX_ENTRY_PREVIOUS_AT, <uint32_t>previous)
        at += INDEX_ENTRY_SIZE
        slots[slot] = number
        number += 1
    return entries, fresh


cdef object _key_hash(uint32_t begun, bytes topic, const uint8_t *key, Py_ssize_t size):
    """The hash of "topic#key", whose first part is hashed already."""
    if begun and is_ascii(key, size):
        return <int32_t>hash_on(begun, key, size)
    return _hash_any([topic + b"#" + key[:size]])[0]


cdef class _Keys:
    """Gathers the keys of messages, each with its record's place and time."""

    cdef list found
    cdef bytes topic
    cdef uint32_t begun

    def __cinit__(self):
        self.found = []

    cdef int begin(self, bytes topic) except -1:
        """The keys that follow are of a topic."""
        self.topic = topic
        cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(self.topic)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(self.topic)
        self.begun = hash_on(hash_on(0, at, size), b"#", 1) if is_ascii(at, size) else 0
        return 0

    cdef int add(self, object given, object offset, object store_ms) except -1:
        """The keys that a block of properties names."""
        cdef bytes block = given if type(given) is bytes else bytes(given)
        return self.add_block(
            <const uint8_t *>PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block), offset, store_ms
        )

    cdef int add_block(
        self, const uint8_t *block, Py_ssize_t block_size, object offset, object store_ms
    ) except -1:
        cdef Py_ssize_t size = 0, start
        cdef const uint8_t *at = last_value(block, block_size, b"UNIQ_KEY\1", 9, &size)
        if at is not NULL:
            self.found.append((_key_hash(self.begun, self.topic, at, size), offset, store_ms))
        at = last_value(block, block_size, b"KEYS\1", 5, &size)
        while at is not NULL and size:
            start = 0
            while start < size and at[start] != c" ":
                start += 1
            if start:
                self.found.append((_key_hash(self.begun, self.topic, at, start), offset, store_ms))
            if start < size:
                start += 1
            at += start
            size -= start
        return 0


cdef int _add_rows(_Keys keys, SendBatch batch, object store_ms) except -1:
    cdef Py_ssize_t index
    cdef Row *row
    cdef bytes block, last_block = None
    for index in range(batch.packed):
        row, block = batch.rows + index, <bytes>(<tuple>batch.lanes[index])[1]
        if block is not last_block:  # All queues of a topic have the same.
            last_block = block
            keys.begin(block[1 if len(block) <= TOPIC_BLOCK_V1_MAX else 2 :])
        keys.add_block(
            batch.text + row.block_at, row.block_size, row.physical_offset, store_ms
        )
    return 0


def index_keys(list waiting):
    """See `cometmq.kernel.keys.index_keys`."""
    cdef _Keys keys = _Keys()
    cdef tuple batch, put
    cdef list results
    cdef object store_ms, puts
    cdef bytes block, last_block = None
    cdef Py_ssize_t index
    for batch in waiting:
        puts, store_ms = batch[0], batch[2]
        if isinstance(puts, SendBatch):
            _add_rows(keys, <SendBatch>puts, store_ms)
            last_block = None
            continue
        results = <list>batch[1]
        if len(puts) != len(results):
            raise ValueError("a result for each put")
        for index in range(len(results)):
            put = <tuple>puts[index]
            if <int>put[11] == NOT_INDEXED:
                continue
            block = <bytes?>put[1]
            if block is not last_block:  # All queues of a topic have the same.
                last_block = block
                keys.begin(block[1 if len(block) <= TOPIC_BLOCK_V1_MAX else 2 :])
            keys.add(put[3], (<tuple>results[index])[1], store_ms)
    return keys.found


def record_keys(records):
    """See `cometmq.kernel.keys.record_keys`."""
    cdef _Keys keys = _Keys()
    cdef tuple fields
    cdef object record
    cdef str topic, last_topic = None
    for record in records:
        if not isinstance(record, tuple) or len(record) != RECORD_FIELDS:
            raise ValueError("no record")
        fields = <tuple>record
        if <int>fields[7] & TRANSACTION_MASK == NOT_INDEXED:
            continue
        topic = <str?>fields[15]
        if topic is not last_topic:
            last_topic = topic
            keys.begin(topic.encode())
        keys.add(fields[16], fields[6], fields[10])
    return keys.found
