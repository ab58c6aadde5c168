# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, embedsignature=True
"""The compiled twin of `keys`, and of the index in `reference`: hashes of keys, and their entries in an index file."""

from array import array

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp

from cometmq.kernel._bytes cimport get_u32, get_u64, put_u32, put_u64
from cometmq.kernel._columns cimport Row, SendBatch
from cometmq.kernel._layouts cimport (
    INDEX_ENTRY_KEY_HASH_AT,
    INDEX_ENTRY_PHYSICAL_OFFSET_AT,
    INDEX_ENTRY_PREVIOUS_AT,
    INDEX_ENTRY_SECONDS_AT,
    INDEX_ENTRY_SIZE,
    RECORD_HEAD_SIZE,
    RECORD_HEAD_STORE_TIME_AT,
    RECORD_HEAD_SYS_FLAG_AT,
    TOPIC_BLOCK_V1_MAX,
)
from cometmq.kernel._plain_records cimport Parts, has_parts, is_plain_topic, is_topic, topic_of
from cometmq.kernel._text cimport hash_on, is_ascii, is_named, property_size
from cometmq.kernel.keys import NOT_INDEXED as _NOT_INDEXED
from cometmq.kernel.records import RECORD_FIELDS as _RECORD_FIELDS
from cometmq.kernel.reference import java_hash_many as _hash_any
from cometmq.model.flags import TRANSACTION_MASK as _TRANSACTION_MASK

cdef extern from *:
    void __builtin_prefetch(const void *at) nogil

cdef int NOT_INDEXED = _NOT_INDEXED
cdef int TRANSACTION_MASK = _TRANSACTION_MASK
cdef Py_ssize_t RECORD_FIELDS = _RECORD_FIELDS

cdef enum:
    KEY_NUMBERS = 3
    BATCH_FIELDS = 7  # Of `rows.PutBatch`.
    ROOM_MIN = 48  # Numbers.
    INT_MAX = 0x7FFFFFFF
    UNIQUE_NAME_SIZE = 9  # Of the names of the properties, with what ends them.
    WORDS_NAME_SIZE = 5
    KEYS_AHEAD = 8  # The slots of so many keys are on their way from memory while one is entered: they lie anywhere.


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


cdef inline uint32_t _stored_hash(int64_t number) noexcept nogil:
    """A key's hash as an index file has it: Math.abs, and 0 for the one number that has none."""
    cdef uint32_t code = <uint32_t><int32_t>number
    return (0 - code) & 0x7FFFFFFF if code >> 31 else code


cdef inline uint32_t _fetched_slot(int32_t[::1] slots, uint32_t slot_count, int64_t key_hash) noexcept nogil:
    """The slot of a key, which the processor is told to fetch."""
    cdef uint32_t slot = _stored_hash(key_hash) % slot_count
    __builtin_prefetch(&slots[slot])
    return slot


def insert_keys(
    int32_t[::1] slots not None, int32_t number, keys not None, int64_t begin_ms,
    bytearray changed not None, int64_t before, int64_t a_page,
):
    """See `cometmq.kernel.keys.insert_keys`."""
    cdef const int64_t[::1] numbers = keys
    cdef Py_ssize_t index, count = numbers.shape[0] // KEY_NUMBERS, page
    cdef uint32_t slot_count = slots.shape[0], slot
    cdef uint32_t ahead[KEYS_AHEAD]
    cdef int32_t previous, fresh = 0
    cdef int64_t seconds
    cdef bytes entries = PyBytes_FromStringAndSize(NULL, count * INDEX_ENTRY_SIZE)
    cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(entries)
    if numbers.shape[0] % KEY_NUMBERS:
        raise ValueError("a hash, an offset and a time for each key")
    if slot_count == 0 and count:
        raise ZeroDivisionError("an index file without slots")
    for index in range(min(count, KEYS_AHEAD)):
        ahead[index] = _fetched_slot(slots, slot_count, numbers[KEY_NUMBERS * index])
    for index in range(count):
        slot = ahead[index % KEYS_AHEAD]
        if index + KEYS_AHEAD < count:
            ahead[index % KEYS_AHEAD] = _fetched_slot(
                slots, slot_count, numbers[KEY_NUMBERS * (index + KEYS_AHEAD)]
            )
        page = (before + slot) // a_page
        if not 0 <= page < PyByteArray_GET_SIZE(changed):
            raise IndexError("a mark for each page of slots")
        PyByteArray_AS_STRING(changed)[page] = 1
        previous = slots[slot]
        if not 0 < previous < number:
            previous = 0
            fresh += 1
        seconds = numbers[KEY_NUMBERS * index + 2]
        seconds = (seconds - begin_ms) // 1000 if 0 < begin_ms < seconds else 0
        put_u32(at + INDEX_ENTRY_KEY_HASH_AT, _stored_hash(numbers[KEY_NUMBERS * index]))
        put_u64(at + INDEX_ENTRY_PHYSICAL_OFFSET_AT, <uint64_t>numbers[KEY_NUMBERS * index + 1])
        put_u32(at + INDEX_ENTRY_SECONDS_AT, <uint32_t>min(seconds, INT_MAX))
        put_u32(at + INDEX_ENTRY_PREVIOUS_AT, <uint32_t>previous)
        at += INDEX_ENTRY_SIZE
        slots[slot] = number
        number += 1
    return entries, fresh


cdef class _Keys:
    """Gathers the keys of messages, each with its record's place and time."""

    cdef int64_t *numbers
    cdef Py_ssize_t count
    cdef Py_ssize_t room
    # The topic, in bytes that are held.
    cdef bytes held
    cdef const uint8_t *topic
    cdef Py_ssize_t topic_size
    cdef uint32_t begun
    # The last unique key, and its hash: the messages of a batch mostly have one.
    cdef const uint8_t *key
    cdef Py_ssize_t key_size
    cdef uint32_t key_hash

    def __dealloc__(self):
        PyMem_Free(self.numbers)

    cdef object found(self):
        """The keys that were gathered, as an array of three numbers for each: hash, physical offset, store time."""
        return array("q", PyBytes_FromStringAndSize(<const char *>self.numbers, self.count * sizeof(int64_t)))

    cdef int begin_block(self, bytes block) except -1:
        """Begin with the keys of a topic, given as records hold it."""
        if block is not self.held:  # All queues of a topic have the same.
            self.begin(block, 1 if PyBytes_GET_SIZE(block) <= TOPIC_BLOCK_V1_MAX else 2)
        return 0

    cdef int begin(self, bytes held, Py_ssize_t start) except -1:
        """Begin with the keys of a topic, which is what some bytes have from a place on."""
        cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(held) + start
        cdef Py_ssize_t size = max(PyBytes_GET_SIZE(held) - start, 0)
        self.held, self.topic, self.topic_size = held, at, size
        self.begun = hash_on(hash_on(0, at, size), b"#", 1) if is_ascii(at, size) else 0
        self.key = NULL
        return 0

    cdef int add_unique(
        self, const uint8_t *key, Py_ssize_t size, int64_t offset, int64_t store_ms
    ) except -1:
        """Add the unique key of a row, of letters and digits; its bytes must stay until all are added."""
        if not self.begun:
            return self.add_key(key, size, offset, store_ms)
        if self.key is NULL or self.key_size != size or memcmp(self.key, key, size) != 0:
            self.key, self.key_size = key, size
            self.key_hash = hash_on(self.begun, key, size)
        return self.keep(<int32_t>self.key_hash, offset, store_ms)

    cdef int add(self, object given, int64_t offset, int64_t store_ms) except -1:
        """Add the keys that a block of properties names."""
        cdef bytes block = given if type(given) is bytes else bytes(given)
        return self.add_of(
            <const uint8_t *>PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block), offset, store_ms
        )

    cdef int add_of(
        self, const uint8_t *block, Py_ssize_t block_size, int64_t offset, int64_t store_ms
    ) except -1:
        """Add the keys that a block of properties names, given by its address."""
        cdef Py_ssize_t size, key_size = 0, words_size = 0
        cdef const uint8_t *at = block
        cdef const uint8_t *end = block + block_size
        cdef const uint8_t *key = NULL
        cdef const uint8_t *words = NULL
        # As `last_value`, of both in one turn.
        while at < end:
            size = property_size(at, end - at)
            if is_named(at, size, b"UNIQ_KEY\1", UNIQUE_NAME_SIZE):
                key, key_size = at + UNIQUE_NAME_SIZE, size - UNIQUE_NAME_SIZE
            elif is_named(at, size, b"KEYS\1", WORDS_NAME_SIZE):
                words, words_size = at + WORDS_NAME_SIZE, size - WORDS_NAME_SIZE
            at += size + 1
        if key is not NULL:
            self.add_key(key, key_size, offset, store_ms)
        return 0 if words is NULL else self.add_words(words, words_size, offset, store_ms)

    cdef int add_words(
        self, const uint8_t *at, Py_ssize_t size, int64_t offset, int64_t store_ms
    ) except -1:
        """Add each word of a text as a key."""
        cdef const uint8_t *end = at + size
        cdef const uint8_t *word_end
        while at < end:
            word_end = <const uint8_t *>memchr(at, c" ", end - at)
            if word_end is NULL:
                word_end = end
            if word_end > at:
                self.add_key(at, word_end - at, offset, store_ms)
            at = word_end + 1
        return 0

    cdef int add_key(
        self, const uint8_t *key, Py_ssize_t size, int64_t offset, int64_t store_ms
    ) except -1:
        if self.begun and is_ascii(key, size):
            return self.keep(<int32_t>hash_on(self.begun, key, size), offset, store_ms)
        return self.keep(
            _hash_any([self.topic[: self.topic_size] + b"#" + key[:size]])[0], offset, store_ms
        )

    cdef int keep(self, int32_t key_hash, int64_t offset, int64_t store_ms) except -1:
        """Keep a key by its hash."""
        cdef Py_ssize_t room
        cdef void *numbers
        if self.count + KEY_NUMBERS > self.room:
            room = max(ROOM_MIN, 2 * self.room)
            numbers = PyMem_Realloc(self.numbers, room * sizeof(int64_t))
            if numbers is NULL:
                raise MemoryError
            self.numbers, self.room = <int64_t *>numbers, room
        self.numbers[self.count] = key_hash
        self.numbers[self.count + 1] = offset
        self.numbers[self.count + 2] = store_ms
        self.count += KEY_NUMBERS
        return 0


cdef int _add_rows(_Keys keys, SendBatch batch, int64_t store_ms) except -1:
    cdef Py_ssize_t index
    cdef Row *row
    for index in range(batch.packed):
        row = batch.rows + index
        keys.begin_block(<bytes>(<tuple>row.lane)[1])
        if row.key_size:
            keys.add_unique(
                batch.text + row.key_at, row.key_size, row.physical_offset, store_ms
            )
        if row.words_size:
            keys.add_words(
                batch.text + row.words_at, row.words_size, row.physical_offset, store_ms
            )
    return 0


def index_keys(list waiting):
    """See `cometmq.kernel.keys.index_keys`."""
    cdef _Keys keys = _Keys()
    cdef tuple batch, put
    cdef list results
    cdef object given, puts, columns
    cdef int64_t store_ms
    cdef Py_ssize_t index
    for given in waiting:
        if not isinstance(given, tuple) or len(given) != BATCH_FIELDS:
            raise ValueError("no batch")
        batch = <tuple>given
        store_ms, results, puts, columns = batch[1], <list>batch[2], batch[3], batch[6]
        if columns is not None:
            _add_rows(keys, <SendBatch?>columns, store_ms)
            continue
        if len(puts) != len(results):
            raise ValueError("a result for each put")
        for index in range(len(results)):
            put = <tuple>puts[index]
            if <int>put[11] == NOT_INDEXED:
                continue
            keys.begin_block(<bytes?>put[1])
            keys.add(put[3], (<tuple>results[index])[1], store_ms)
    return keys.found()


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
            keys.begin(topic.encode(), 0)
        keys.add(fields[16], fields[6], fields[10])
    return keys.found()


def raw_keys(const uint8_t[::1] chunk, Py_ssize_t position, int64_t offset):
    """See `cometmq.kernel.wanted.raw_keys`."""
    cdef const uint8_t *start = &chunk[0]
    cdef const uint8_t *at
    cdef Py_ssize_t end = chunk.shape[0]
    cdef Py_ssize_t last = end - RECORD_HEAD_SIZE
    cdef _Keys keys = _Keys()
    cdef bytes topic = None
    cdef Parts parts
    if position < 0:
        raise ValueError("a place in the piece")
    while position <= last and has_parts(start, position, end, offset, &parts):
        at = start + position
        if not is_topic(topic, start + parts.body_end):
            if not is_plain_topic(start + parts.body_end):
                break
            topic = topic_of(start, &parts)
            keys.begin(topic, 0)
        if get_u32(at + RECORD_HEAD_SYS_FLAG_AT) & <uint32_t>TRANSACTION_MASK != <uint32_t>NOT_INDEXED:
            keys.add_of(
                start + parts.block_start, parts.after - parts.block_start, offset + position,
                <int64_t>get_u64(at + RECORD_HEAD_STORE_TIME_AT),
            )
        position = parts.after
    return keys.found(), position
